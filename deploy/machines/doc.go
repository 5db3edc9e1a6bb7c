// Package machines has no code. Its test follows docs/machines.md on machines that it starts.
package machines
