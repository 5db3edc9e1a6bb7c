package faultnet

import (
	"errors"
	"io"
	"time"
)

// errCut is the error of a connection that a fault cut.
var errCut = errors.New("the connection is cut")

const (
	frameHeader = 9
	dataFrame   = 0 // the type in an HTTP/2 frame's header
)

// copyFrames forwards HTTP/2 frames. It returns errCut after `last` DATA frames; 0 means never.
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
			time.Sleep(delay()) // the delay is the fault
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

// limited writes `left` bytes and then returns errCut.
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
