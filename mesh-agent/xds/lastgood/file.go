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

// file is an append-only file of records. Compaction starts a new one.
type file struct {
	*os.File

	number int
	size   int64 // including what is still buffered
	synced int64 // what is known to be on disk
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

// append writes a record and returns its location.
func (f *file) append(r *record) (at location, err error) {
	n, err := r.write(f.out)
	at = location{f, f.size, n}
	f.size += int64(n)
	return at, err
}

// flushAndSync writes everything to disk.
func (f *file) flushAndSync() error {
	if f.synced == f.size {
		return nil
	}
	size := f.size
	if err := errors.Join(f.out.Flush(), f.Sync()); err != nil {
		return err
	}
	f.synced = size
	return nil
}

// location is where a record is.
type location struct {
	file   *file
	offset int64
	size   int
}

// read reads the record and verifies its checksum.
func (p location) read() (*record, error) {
	if err := p.file.out.Flush(); err != nil {
		return nil, err
	}
	content := make([]byte, p.size)
	if _, err := p.file.ReadAt(content, p.offset); err != nil {
		return nil, err
	}
	size, sum, err := readHead(content)
	if err != nil || int(size) != p.size-headSize || crc32.Checksum(content[headSize:], checksum) != sum {
		return nil, errBroken
	}
	return parse(content[headSize:])
}

// damage describes what could not be read of a file.
type damage struct {
	records int   // a lower bound
	bytes   int64 // between intact records
	torn    bool  // the end of the file is incomplete, as after a crash
}

// load calls take with each intact record in order, and truncates the file after the last, ready to
// append.
func (f *file) load(take func(*record, location)) (lost damage, err error) {
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
			next, err := f.nextHead(at+1, size)
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
		where := location{f, at, headSize + int(length)}
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
	f.size, f.synced = end, end
	if err := f.Truncate(end); err != nil {
		return lost, err
	}
	_, err = f.Seek(end, io.SeekStart)
	return lost, err
}

// nextHead returns the offset of the next intact head, or -1.
func (f *file) nextHead(from, size int64) (int64, error) {
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
		from += int64(max(n-headSize+1, 1)) // a head may begin in this window and end in the next
	}
	return -1, nil
}
