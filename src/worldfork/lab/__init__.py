"""The lab turns registrations into ledgers. Importing it pins the compiler and has it keep what it compiles."""

from worldfork.lab.compilation import keep_compiled
from worldfork.lab.determinism import pin_compiler

pin_compiler()
keep_compiled()
