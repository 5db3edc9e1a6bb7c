// Package agreement holds no code. Its tests compare what the database says of a mesh with what
// discovery makes of it.
package agreement
