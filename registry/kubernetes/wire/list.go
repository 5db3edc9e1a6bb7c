package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// List reads a list while it comes, and gives the message of each object to a function, which must not
// keep it. No object may have more than so many bytes.
type List struct {
	Most    int
	Objects func(message []byte) error
	// Version and Continue are what the list says of itself.
	Version, Continue string

	from *bufio.Reader
	left uint64 // bytes of the message that is being read
	one  []byte
}

// Malformed is the error of a list that cannot be read, however much of it comes.
type Malformed struct{ Reason error }

func (m *Malformed) Error() string { return m.Reason.Error() }

func (m *Malformed) Unwrap() error { return m.Reason }

// Read reads the list.
func (l *List) Read(from io.Reader) error {
	l.from, l.left = bufio.NewReader(from), 1<<62
	if begin, err := l.take(uint64(len(magic))); err != nil {
		return err
	} else if string(begin) != magic {
		return &Malformed{errNoObject}
	}
	for {
		field, size, err := l.field()
		if err != nil {
			return err
		}
		if field == 2 {
			l.left = size
			return l.items()
		}
		if _, err := l.take(size); err != nil {
			return err
		}
	}
}

func (l *List) items() error {
	for l.left > 0 {
		field, size, err := l.field()
		if err != nil {
			return err
		}
		message, err := l.take(size)
		if err != nil {
			return err
		}
		switch field {
		case 1:
			err = l.meta(message)
		case 2:
			err = l.Objects(message)
		}
		if err != nil {
			return err
		}
	}
	if l.Version == "" {
		return &Malformed{errors.New("it is no list of Kubernetes")}
	}
	return nil
}

func (l *List) meta(message []byte) error {
	m := Read(message)
	for m.Next() {
		switch m.Field() {
		case 2:
			l.Version = m.Text()
		case 3:
			l.Continue = m.Text()
		}
	}
	if m.Err() != nil {
		return &Malformed{m.Err()}
	}
	return nil
}

// field is the number and the size of the next field. All of a list are messages or texts.
func (l *List) field() (field protowire.Number, size uint64, err error) {
	tag, err := l.varint()
	if err != nil {
		return 0, 0, err
	}
	field, sort := protowire.DecodeTag(tag)
	if field < 1 || sort != protowire.BytesType {
		return 0, 0, &Malformed{fmt.Errorf("field %d of a list has the wire type %d", field, sort)}
	}
	size, err = l.varint()
	return field, size, err
}

func (l *List) varint() (value uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		if l.left == 0 {
			return 0, &Malformed{errNoObject}
		}
		l.left--
		b, err := l.from.ReadByte()
		if err != nil {
			return 0, early(err)
		}
		if value |= uint64(b&0x7f) << shift; b < 0x80 {
			return value, nil
		}
	}
	return 0, &Malformed{errors.New("a number of a list has more than 64 bits")}
}

// early is the error of a list that ends in the midst.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// take reads so many bytes, which stay until it is called again.
func (l *List) take(size uint64) ([]byte, error) {
	if size > uint64(l.Most) {
		return nil, &Malformed{fmt.Errorf("an object has more than %d MiB", l.Most>>20)}
	}
	if size > l.left {
		return nil, &Malformed{errNoObject}
	}
	l.left -= size
	if uint64(cap(l.one)) < size {
		l.one = make([]byte, size)
	}
	l.one = l.one[:size]
	_, err := io.ReadFull(l.from, l.one)
	return l.one, early(err)
}
