package lastgood

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file is one of those that records are appended to. A new one is begun to leave behind what is of no use any more.
type file struct {
	*os.File

	number int
	size   int64 // with what is still to be flushed
	safe   int64 // what the disk has
	out    *bufio.Writer
}

const suffix = ".records"

func fileName(number int) string { return fmt.Sprintf("%06d%s", number, suffix) }

// numbers lists the files of a folder, the oldest first.
func numbers(folder string) ([]int, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if text, ours := strings.CutSuffix(e.Name(), suffix); ours {
			if n, err := strconv.Atoi(text); err == nil {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func openFile(folder string, number int) (*file, error) {
	f, err := os.OpenFile(filepath.Join(folder, fileName(number)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{File: f, number: number, out: bufio.NewWriterSize(f, 16<<10)}, nil
}

// append writes a record behind the others, and returns where it is.
func (f *file) append(r *record) (at place, err error) {
	n, err := r.write(f.out)
	at = place{f, f.size, n}
	f.size += int64(n)
	return at, err
}

// settle has the disk take everything.
func (f *file) settle() error {
	if f.safe == f.size {
		return nil
	}
	size := f.size
	if err := errors.Join(f.out.Flush(), f.Sync()); err != nil {
		return err
	}
	f.safe = size
	return nil
}

// place is where a record is.
type place struct {
	file *file
	at   int64
	size int
}

// read reads the record again, and checks it again.
func (p place) read() (*record, error) {
	if err := p.file.out.Flush(); err != nil {
		return nil, err
	}
	content := make([]byte, p.size)
	if _, err := p.file.ReadAt(content, p.at); err != nil {
		return nil, err
	}
	size, sum, err := readHead(content)
	if err != nil || int(size) != p.size-headSize || crc32.Checksum(content[headSize:], checksum) != sum {
		return nil, errBroken
	}
	return parse(content[headSize:])
}

// damage is what could not be read of a file.
type damage struct {
	records int   // at least
	bytes   int64 // of which nobody knows what they were
	torn    bool  // the end is missing, as after a crash
}

// load calls take with each record that is whole, in order, and is ready to append after the last.
func (f *file) load(take func(*record, place)) (lost damage, err error) {
	info, err := f.Stat()
	if err != nil {
		return lost, err
	}
	size, at, end := info.Size(), int64(0), int64(0)
	head := make([]byte, headSize)
	for at+headSize <= size {
		if _, err := f.ReadAt(head, at); err != nil {
			return lost, err
		}
		length, sum, broken := readHead(head)
		if broken != nil || at+headSize+int64(length) > size {
			next, err := f.find(at+1, size)
			if err != nil {
				return lost, err
			}
			if next < 0 {
				break
			}
			lost.records++
			lost.bytes += next - at
			at = next
			continue
		}
		payload := make([]byte, length)
		if _, err := f.ReadAt(payload, at+headSize); err != nil {
			return lost, err
		}
		where := place{f, at, headSize + int(length)}
		at += int64(where.size)
		if crc32.Checksum(payload, checksum) != sum {
			lost.records++
			lost.bytes += int64(where.size)
			continue
		}
		r, err := parse(payload)
		if err != nil {
			lost.records++
			continue
		}
		end = at
		take(r, where)
	}
	lost.torn = end < size
	f.size, f.safe = end, end
	if err := f.Truncate(end); err != nil {
		return lost, err
	}
	_, err = f.Seek(end, io.SeekStart)
	return lost, err
}

// find is where the next head is that is whole, -1 if there is none.
func (f *file) find(from, size int64) (int64, error) {
	const window = 64 << 10
	buffer := make([]byte, window)
	for from+headSize <= size {
		n, err := f.ReadAt(buffer, from)
		if err != nil && err != io.EOF { //nolint:errorlint // ReadAt returns it as it is
			return 0, err
		}
		for i := 0; ; {
			j := bytes.Index(buffer[i:n], magic)
			if j < 0 || i+j+headSize > n {
				break
			}
			i += j
			if length, _, broken := readHead(buffer[i:n]); broken == nil && from+int64(i)+headSize+int64(length) <= size {
				return from + int64(i), nil
			}
			i++
		}
		from += int64(max(n-headSize+1, 1))
	}
	return -1, nil
}
