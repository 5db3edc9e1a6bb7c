// Package machines holds no code: its test follows docs/machines.md, on machines that it starts.
package machines
