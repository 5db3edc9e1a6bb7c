package faultnet

import (
	"errors"
	"io"
	"time"
)

// errCut is the end that a fault makes.
var errCut = errors.New("the connection is cut")

const (
	frameHeader = 9
	dataFrame   = 0 // the type in an HTTP/2 frame's header
)

// copyFrames passes on HTTP/2 frames, and ends after so many with data, if that is not 0.
func copyFrames(to io.Writer, from io.Reader, last int, delay func() time.Duration) error {
	header := make([]byte, frameHeader)
	for data := 0; ; {
		if _, err := io.ReadFull(from, header); err != nil {
			return err
		}
		frame := make([]byte, frameHeader+int(header[0])<<16+int(header[1])<<8+int(header[2]))
		copy(frame, header)
		if _, err := io.ReadFull(from, frame[frameHeader:]); err != nil {
			return err
		}
		if delay != nil {
			time.Sleep(delay()) // the fault itself
		}
		if _, err := to.Write(frame); err != nil {
			return err
		}
		if header[3] != dataFrame {
			continue
		}
		if data++; data == last {
			return errCut
		}
	}
}

// limited takes so many bytes and then cuts.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	if len(b) < l.left {
		l.left -= len(b)
		return l.to.Write(b)
	}
	n, err := l.to.Write(b[:l.left])
	l.left = 0
	return n, errors.Join(err, errCut)
}
