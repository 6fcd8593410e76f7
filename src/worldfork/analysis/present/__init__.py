"""Tables, sentences, figures and the page, made from the records of a score."""
