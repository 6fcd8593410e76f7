"""The lab turns registrations into ledgers. Importing it pins the compiler and has it keep what it compiles."""

from worldfork.lab.determinism import keep_compiled, pin_compiler

pin_compiler()
keep_compiled()
