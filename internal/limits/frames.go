package limits

import (
	"encoding/binary"
	"errors"
)

// The parts of HTTP/2 that are read here (RFC 9113, sections 3.4, 4.1 and 6).
const (
	prefaceLength = 24 // what a client sends first
	frameHeader   = 9

	dataFrame, headersFrame, resetFrame = 0x0, 0x1, 0x3
	endStream, padded                   = 0x1, 0x8
)

// messagePrefix is what gRPC puts before each message: whether it is compressed, and its length.
const messagePrefix = 5

const (
	// mostUnfinished bounds the streams of a connection that are in the middle of a message.
	// Streams that the server has ended count until the client ends them.
	mostUnfinished = 4096
	// gRPC keeps each frame in buffers of its own, so a message may take several times its size.
	// One sent in tiny pieces would take hundreds of times its size.
	buffersOf   = 4
	buffersFree = 64 << 10
)

var (
	errCrumbs   = errors.New("a client sends a message in pieces that are so small that they take much more memory than it has bytes")
	errUnended  = errors.New("a client has begun messages on too many streams of a connection")
	errNoStream = errors.New("a message belongs to no stream")
)

// frames parses what a client sends over HTTP/2, just enough to find where gRPC's messages begin
// and end. gRPC itself refuses what is invalid.
type frames struct {
	// large is called once more of a message has come than gRPC's window allows for an unread
	// stream, before anything further is read. Unless it reports that it is done, it is called
	// again.
	large func(stream uint32, size int) (done bool, err error)
	// ends is called when nothing more comes of the message on a stream, even if no message was
	// begun.
	ends func(stream uint32)

	preface int // bytes of it that are still to come
	header  [frameHeader]byte
	have    int  // bytes of the header so far
	left    int  // bytes of the frame that are still to come
	padding int  // how many of the last bytes are padding
	padded  bool // the next byte is the padding's length

	now        unfinished            // the message on the frame's stream
	unfinished map[uint32]unfinished // by stream, without streams that are between messages
}

// unfinished is a message that has come in part.
type unfinished struct {
	prefix [messagePrefix]byte
	have   int // bytes of the prefix so far
	left   int // bytes of the message that are still to come
	got    int
	weight int  // the memory that gRPC keeps for it so far
	told   bool // large was called, and is done
}

func newFrames(large func(uint32, int) (bool, error), ends func(uint32)) *frames {
	return &frames{large: large, ends: ends, preface: prefaceLength, unfinished: map[uint32]unfinished{}}
}

// follow parses the next bytes, however they are cut.
func (f *frames) follow(b []byte) error {
	n := min(len(b), f.preface)
	f.preface -= n
	for b = b[n:]; len(b) > 0; {
		var err error
		if f.have < frameHeader {
			n = copy(f.header[f.have:], b)
			if f.have += n; f.have == frameHeader {
				err = f.begin()
			}
		} else {
			n = min(len(b), f.left)
			err = f.payload(b[:n])
		}
		if err == nil && f.have == frameHeader && f.left == 0 {
			err = f.end()
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (f *frames) kind() byte           { return f.header[3] }
func (f *frames) flagged(is byte) bool { return f.header[4]&is != 0 }
func (f *frames) stream() uint32       { return binary.BigEndian.Uint32(f.header[5:]) & (1<<31 - 1) }

// begin reads the header of a frame.
func (f *frames) begin() error {
	f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	if f.padding = 0; f.kind() != dataFrame {
		return nil
	}
	if f.stream() == 0 {
		return errNoStream
	}
	f.padded, f.now = f.flagged(padded), f.unfinished[f.stream()]
	f.now.weight += bufferOf(f.left)
	if f.now.weight > buffersOf*f.now.got+buffersFree {
		return errCrumbs
	}
	return nil
}

// bufferOf is the memory that gRPC keeps for a frame. A small frame has a buffer of its own size,
// others one of two sizes.
func bufferOf(length int) int {
	switch {
	case length <= 1<<10:
		return length + 64
	case length <= 4<<10:
		return 4 << 10
	default:
		return max(length, 16<<10)
	}
}

// payload parses a part of a frame's payload.
func (f *frames) payload(b []byte) error {
	f.left -= len(b)
	if f.kind() != dataFrame {
		return nil
	}
	if f.padded {
		f.padded, f.padding, b = false, int(b[0]), b[1:]
	}
	return f.messages(b[:len(b)-min(len(b), max(0, f.padding-f.left))])
}

// messages parses a part of a stream's messages.
func (f *frames) messages(b []byte) error {
	m := &f.now
	for len(b) > 0 {
		var n int
		if m.have < messagePrefix {
			n = copy(m.prefix[m.have:], b)
			if m.have += n; m.have == messagePrefix {
				m.left = int(binary.BigEndian.Uint32(m.prefix[1:]))
			}
		} else {
			n = min(len(b), m.left)
			m.left -= n
		}
		if m.got, b = m.got+n, b[n:]; m.got > unfinishedFree && !m.told {
			var err error
			if m.told, err = f.large(f.stream(), m.got+m.left); err != nil {
				return err
			}
		}
		if m.have == messagePrefix && m.left == 0 {
			*m = unfinished{}
			f.ends(f.stream())
		}
	}
	return nil
}

// end is called after the last byte of a frame.
func (f *frames) end() error {
	f.have = 0
	kind := f.kind()
	if kind == resetFrame || (kind == dataFrame || kind == headersFrame) && f.flagged(endStream) {
		delete(f.unfinished, f.stream())
		f.ends(f.stream())
		return nil
	}
	switch {
	case kind != dataFrame:
	case f.now.have == 0:
		delete(f.unfinished, f.stream())
	default:
		f.unfinished[f.stream()] = f.now
	}
	if len(f.unfinished) > mostUnfinished {
		return errUnended
	}
	return nil
}
