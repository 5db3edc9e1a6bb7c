package fetch

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
)

const (
	// mostPackings bounds what a module can be packed in: a compressed archive of a compressed
	// module is more than anybody needs.
	mostPackings = 4
	// tarMagic is at this offset of an archive.
	tarMagicAt = 257
)

var (
	wasmMagic = []byte{0, 'a', 's', 'm', 1, 0, 0, 0} // of version 1, which is the only one
	gzipMagic = []byte{0x1f, 0x8b}
	tarMagic  = []byte("ustar")
)

// unpack returns the module in a stream: the stream itself, or what is compressed or archived in
// it. In an archive the module has a name, or it is the first file if name is empty.
func unpack(packed io.Reader, name string, most int64) (io.Reader, error) {
	for range mostPackings {
		in := bufio.NewReaderSize(packed, 4<<10)
		start, err := in.Peek(tarMagicAt + len(tarMagic))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		switch {
		case bytes.HasPrefix(start, wasmMagic):
			return in, nil
		case bytes.HasPrefix(start, gzipMagic):
			out, err := gzip.NewReader(in)
			if err != nil {
				return nil, fmt.Errorf("it cannot be decompressed: %w", err)
			}
			packed = bound(out, most)
		case len(start) > tarMagicAt && bytes.HasPrefix(start[tarMagicAt:], tarMagic):
			if packed, err = fromArchive(in, name); err != nil {
				return nil, err
			}
		default:
			return nil, errors.New("it is no Wasm module, nor an archive of one")
		}
	}
	return nil, errors.New("it is packed too many times")
}

// fromArchive finds a file in an archive.
func fromArchive(in io.Reader, name string) (io.Reader, error) {
	archive := tar.NewReader(in)
	for {
		at, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && name == "":
			return nil, errors.New("there is no file in the archive")
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("there is no %s in the archive", name)
		case err != nil:
			return nil, fmt.Errorf("the archive cannot be read: %w", err)
		}
		if at.Typeflag == tar.TypeReg && (name == "" || path.Base(at.Name) == name) {
			return archive, nil
		}
	}
}
