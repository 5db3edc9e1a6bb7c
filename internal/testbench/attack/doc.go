// Package attack tries what a tenant of the database, a stranger, a machine whose certificate was
// stolen, and a hostile name could do to others, on the real programs: one file an attack. While an
// attack lasts a bystander asks, changes and revokes as on any other day, and has to be served as
// fast, and the programs have to stay below a stated amount of memory.
//
// docs/security.md lists each attack with its test.
package attack
