"""The lab turns registrations into ledgers. Importing it pins the compiler, wherever it is entered from."""

from worldfork.lab.determinism import pin_compiler

pin_compiler()
