package terminal

import (
	"io"
	"os"
)

// Is reports whether out is a terminal, directly or through a Writer.
func Is(out io.Writer) bool {
	if w, is := out.(*Writer); is {
		return Is(w.out)
	}
	file, is := out.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Exact returns what a Writer writes to. Use it for output that is not text for people: programs
// that take over the terminal, and files that are read back.
func Exact(out io.Writer) io.Writer {
	if w, is := out.(*Writer); is {
		return w.out
	}
	return out
}

// Exactly returns out unchanged if it is a terminal, otherwise Exact(out). Use it for output that
// must arrive byte for byte, such as YAML.
func Exactly(out io.Writer) io.Writer {
	if Is(out) {
		return out
	}
	return Exact(out)
}
