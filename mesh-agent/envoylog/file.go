package envoylog

import (
	"bytes"
	"errors"
	"io"
	"os"
)

const (
	// chunk is how much is read at once. A line that is longer comes in pieces.
	chunk = 64 << 10

	// atMost is how much of what nobody has read an agent begins with.
	atMost = 8 << 20
)

// file is one that Envoy appends to.
type file struct {
	*os.File

	to      io.Writer
	at      int64 // all before was passed on
	skipped int64
	buffer  []byte
}

func openFile(path string, to io.Writer) (*file, error) {
	opened, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	f := &file{File: opened, to: to, buffer: make([]byte, chunk)}
	if err := f.find(); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return f, nil
}

// find goes to the first byte that nobody has read.
func (f *file) find() error {
	size, err := f.size()
	if err != nil {
		return err
	}
	for f.at = firstData(f.File, size); f.at < size; {
		n, err := f.ReadAt(f.buffer, f.at)
		unread := bytes.TrimLeft(f.buffer[:n], "\x00")
		f.at += int64(n - len(unread))
		if len(unread) > 0 || n == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if size-f.at > atMost {
		f.skipped = size - f.at - atMost
		f.forget(f.at + f.skipped)
	}
	return nil
}

func (f *file) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// take passes on each whole line.
func (f *file) take() error {
	for {
		size, err := f.size()
		if err != nil {
			return err
		}
		if size < f.at { // somebody has emptied it
			f.at = 0
		}
		n, err := f.ReadAt(f.buffer, f.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		whole := bytes.LastIndexByte(f.buffer[:n], '\n') + 1
		if whole == 0 && n == len(f.buffer) {
			whole = n
		}
		if whole == 0 {
			return nil
		}
		f.passOn(f.buffer[:whole])
		f.forget(f.at + int64(whole))
	}
}

func (f *file) passOn(text []byte) {
	if f.to != nil {
		_, _ = f.to.Write(text) // who reads the agent's output may be gone
	}
}

// empty passes on what is left, a line without an end included, and begins anew.
func (f *file) empty() error {
	n, err := f.ReadAt(f.buffer, f.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n > 0 {
		f.passOn(append(f.buffer[:n:n], '\n'))
	}
	f.at = 0
	return f.Truncate(0)
}

// forget gives back the room of all before a place.
func (f *file) forget(before int64) {
	from := f.at
	f.at = before
	if punch(f.File, from, before) {
		return
	}
	// Without holes it is emptied now and then, at a moment when everything was read; a line that comes just then is lost.
	if size, err := f.size(); err == nil && size == f.at && size > atMost {
		f.at = 0
		_ = f.Truncate(0)
	}
}
