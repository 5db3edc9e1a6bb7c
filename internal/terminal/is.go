package terminal

import (
	"io"
	"os"
)

// Is tells whether somebody looks at what is written, be it through a Writer.
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

// Exact is what a Writer writes to, for what is no text for people: programs that have the terminal for themselves, and files that are read again.
func Exact(out io.Writer) io.Writer {
	if w, is := out.(*Writer); is {
		return w.out
	}
	return out
}

// Exactly is out for what has to arrive as it is, such as YAML: Exact, unless somebody looks.
func Exactly(out io.Writer) io.Writer {
	if Is(out) {
		return out
	}
	return Exact(out)
}
