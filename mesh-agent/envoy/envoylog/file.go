package envoylog

import (
	"bytes"
	"errors"
	"io"
	"os"
)

const (
	// chunk is the size of one read. A longer line is passed on in several writes.
	chunk = 64 << 10

	// maxBacklog bounds how much unread output an agent starts with.
	maxBacklog = 8 << 20
)

// file is one that Envoy appends to.
type file struct {
	*os.File

	to      io.Writer
	at      int64 // everything before this offset was passed on
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

// find moves to the first unread byte and skips what exceeds maxBacklog.
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
	if size-f.at > maxBacklog {
		f.skipped = size - f.at - maxBacklog
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

// take passes on complete lines; a line longer than the buffer goes in parts.
func (f *file) take() error {
	for {
		size, err := f.size()
		if err != nil {
			return err
		}
		if size < f.at { // the file was truncated
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
		_, _ = f.to.Write(text) // the reader of the agent's output may be gone
	}
}

// empty passes on what is left, an unfinished line included, and truncates the file.
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

// forget advances to an offset and frees the room before it.
func (f *file) forget(before int64) {
	from := f.at
	f.at = before
	if punch(f.File, from, before) {
		return
	}
	// Without holes, truncate the file once it is large and fully read. A line that Envoy writes
	// between the check and the truncation is lost.
	if size, err := f.size(); err == nil && size == f.at && size > maxBacklog {
		f.at = 0
		_ = f.Truncate(0)
	}
}
