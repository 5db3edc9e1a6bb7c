// Package bare is the floor for a server: it sends prepared frames, and knows nothing of resources.
package bare

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/frames"
)

// server sends frames to each waiting stream.
type server struct {
	mu      sync.Mutex
	waiting map[chan []*frames.Frame]bool
}

// The methods of the server, and the size of the frames with which it fills a stream.
const (
	fillMethod = "/bench.Bare/Fill"
	waitMethod = "/bench.Bare/Wait"
	fillFrame  = 256 << 10
)

// Serve serves until orders end, and writes its address to the first line of out. An order is a
// line of sizes: each waiting stream is sent frames of these sizes.
func Serve(ctx context.Context, orders io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &server{waiting: map[chan []*frames.Frame]bool{}}
	g := grpc.NewServer(grpc.ForceServerCodecV2(frames.Codec), grpc.UnknownServiceHandler(s.serve))
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	fmt.Fprintln(out, l.Addr())
	err = s.runOrders(ctx, orders)
	g.Stop()
	return errors.Join(err, <-served)
}

func (s *server) runOrders(ctx context.Context, orders io.Reader) error {
	lines := bufio.NewScanner(orders)
	for ctx.Err() == nil && lines.Scan() {
		var ready []*frames.Frame
		for size := range strings.FieldsSeq(lines.Text()) {
			n, err := strconv.Atoi(size)
			if err != nil {
				return fmt.Errorf("an order to the bare server: %w", err)
			}
			ready = append(ready, frames.Of(make([]byte, n)))
		}
		s.wake(ready)
	}
	return lines.Err()
}

func (s *server) serve(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request frames.Frame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	switch method {
	case fillMethod:
		return fill(stream, int64(binary.BigEndian.Uint64(request.Data.Materialize())))
	case waitMethod:
		return s.wait(stream)
	}
	return status.Error(codes.Unimplemented, method)
}

func fill(stream grpc.ServerStream, bytes int64) error {
	content := make([]byte, fillFrame)
	for ; bytes > 0; bytes -= fillFrame {
		if err := stream.SendMsg(frames.Of(content[:min(bytes, fillFrame)])); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) wait(stream grpc.ServerStream) error {
	woken := make(chan []*frames.Frame, 1)
	s.mu.Lock()
	s.waiting[woken] = true
	s.mu.Unlock()
	defer func() { s.mu.Lock(); defer s.mu.Unlock(); delete(s.waiting, woken) }()
	if err := stream.SendMsg(frames.Of([]byte{0})); err != nil { // tells the client that it is waiting now
		return err
	}
	for {
		var ready []*frames.Frame
		select {
		case ready = <-woken:
		case <-stream.Context().Done():
			return nil
		}
		for _, f := range ready {
			if err := stream.SendMsg(f); err != nil {
				return err
			}
		}
	}
}

func (s *server) wake(ready []*frames.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiting {
		select {
		case w <- ready:
		default:
		}
	}
}
