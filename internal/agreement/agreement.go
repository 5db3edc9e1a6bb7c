// Package agreement holds no code. Its tests hold what the database says of a mesh against what discovery makes of the same mesh.
package agreement
