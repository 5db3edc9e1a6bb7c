package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine is longer than any resource, and bounds the memory that a damaged file can take.
const maxLine = 64 << 20

// Open reads the snapshot in a file.
func Open(path string) (Header, []Entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return Header{}, nil, err
	}
	defer file.Close()
	h, entries, err := Read(file)
	if err != nil {
		return Header{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, entries, nil
}

// Is reports whether a file begins like a snapshot.
func Is(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	plain, err := decompressed(file)
	if err != nil {
		return false
	}
	start := make([]byte, len(beginning))
	_, err = io.ReadFull(plain, start)
	return err == nil && string(start) == beginning
}

// beginning is how snapshots of every version begin.
const beginning = `{"format":"pgmesh.io/snapshot/`

// Read reads a snapshot, compressed or not. It returns ErrDamaged if the snapshot is incomplete or
// changed.
func Read(in io.Reader) (Header, []Entry, error) {
	plain, err := decompressed(in)
	if err != nil {
		return Header{}, nil, damaged(0, err)
	}
	r := &reader{in: bufio.NewReaderSize(plain, 64<<10)}
	first, err := r.next()
	if err != nil {
		return Header{}, nil, damaged(r.number, err)
	}
	var h Header
	if err := json.Unmarshal(first, &h); err != nil || h.Format == "" {
		return Header{}, nil, damaged(r.number, errors.New("it does not begin as a snapshot does"))
	}
	if h.Format != Format {
		return Header{}, nil, fmt.Errorf("the snapshot has the format %q, and this program knows %q: use a newer one", h.Format, Format)
	}
	entries, err := r.entries()
	return h, entries, err
}

func damaged(line int, err error) error {
	if line == 0 {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("%w: line %d: %w", ErrDamaged, line, err)
}

func decompressed(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(in)
	if magic, _ := buffered.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	return gzip.NewReader(buffered)
}

// reader reads line by line.
type reader struct {
	in     *bufio.Reader
	number int
	text   []byte
}

func (r *reader) entries() ([]Entry, error) {
	entries := []Entry{}
	sum := sha256.New()
	sum.Write(r.text) // the header
	for {
		text, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil, damaged(r.number, errors.New("its end is missing"))
		}
		if err != nil {
			return nil, damaged(r.number, err)
		}
		var l struct {
			line
			trailer
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, damaged(r.number, err)
		}
		if l.Resources != nil {
			return entries, r.checkEnd(l.trailer, len(entries), hex.EncodeToString(sum.Sum(nil)))
		}
		sum.Write(text)
		e, err := l.decode()
		if err != nil {
			return nil, damaged(r.number, err)
		}
		entries = append(entries, e)
	}
}

// checkEnd compares the trailer with the lines before it.
func (r *reader) checkEnd(end trailer, resources int, sum string) error {
	switch _, err := r.next(); {
	case !errors.Is(err, io.EOF):
		return damaged(r.number, errors.New("there is something after the end"))
	case *end.Resources != resources:
		return damaged(r.number, fmt.Errorf("it should have %d resources, and has %d", *end.Resources, resources))
	case end.SHA256 != sum:
		return damaged(r.number, errors.New("its checksum is wrong: it was changed after it was taken"))
	}
	return nil
}

// next returns the next line with its newline. It is valid until the next call.
func (r *reader) next() ([]byte, error) {
	r.number++
	r.text = r.text[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.text = append(r.text, part...)
		switch {
		case err == nil:
			return r.text, nil
		case errors.Is(err, io.EOF) && len(r.text) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(r.text) > maxLine:
			return nil, fmt.Errorf("the line is longer than %d bytes", maxLine)
		}
	}
}
