package bare

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/testbench/frames"
)

// Drain asks the server for this many bytes and reads them.
func Drain(ctx context.Context, address string, bytes int64, opts ...grpc.DialOption) (int64, error) {
	conn, err := frames.Dial(address, opts...)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stream, err := frames.Open(ctx, conn, fillMethod)
	if err != nil {
		return 0, err
	}
	if err := stream.SendMsg(frames.Of(binary.BigEndian.AppendUint64(nil, uint64(bytes)))); err != nil {
		return 0, err
	}
	for read := int64(0); ; {
		var f frames.Frame
		if err := stream.RecvMsg(&f); errors.Is(err, io.EOF) {
			return read, nil
		} else if err != nil {
			return read, err
		}
		read += int64(f.Data.Len())
		f.Data.Free()
	}
}

// Waiting is a client that waits for frames.
type Waiting struct {
	conn   *grpc.ClientConn
	stream grpc.ClientStream
}

// Wait connects a client, and returns when the server has registered it as waiting.
func Wait(ctx context.Context, address string, opts ...grpc.DialOption) (*Waiting, error) {
	conn, err := frames.Dial(address, opts...)
	if err != nil {
		return nil, err
	}
	stream, err := frames.Open(ctx, conn, waitMethod)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	w := &Waiting{conn: conn, stream: stream}
	if err := stream.SendMsg(frames.Of([]byte{0})); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, w.Frames(1)
}

// Frames returns when this many frames have arrived.
func (w *Waiting) Frames(n int) error {
	for range n {
		var f frames.Frame
		if err := w.stream.RecvMsg(&f); err != nil {
			return err
		}
		f.Data.Free()
	}
	return nil
}

// Close closes the connection.
func (w *Waiting) Close() error { return w.conn.Close() }
