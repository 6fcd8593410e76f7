"""Search over action sequences through any imagine function; knows no model."""
