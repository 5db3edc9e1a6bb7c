package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// bare is the floor of a server: it sends what it has ready, and knows nothing of resources.
type bare struct {
	mu      sync.Mutex
	waiting map[chan struct{}]bool
}

// The methods of bare, and how large the frames are that it sends.
const (
	fillMethod = "/bench.Bare/Fill"
	waitMethod = "/bench.Bare/Wait"

	fillFrame               = 256 << 10
	changeFrame, markFrame  = 900, 220
	framesAfterEachLineRead = 2
)

// runBare serves until its standard input ends, and tells its address on its standard output. For each line that it reads it sends two
// frames to each stream that waits.
func runBare(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b := &bare{waiting: map[chan struct{}]bool{}}
	server := grpc.NewServer(grpc.ForceServerCodecV2(asFrames), grpc.UnknownServiceHandler(b.serve))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintln(os.Stdout, l.Addr())
	lines := bufio.NewScanner(os.Stdin)
	for ctx.Err() == nil && lines.Scan() {
		b.wake()
	}
	server.Stop()
	return <-served
}

func (b *bare) serve(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request frame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	switch method {
	case fillMethod:
		return fill(stream, int64(binary.BigEndian.Uint64(request.data.Materialize())))
	case waitMethod:
		return b.wait(stream)
	}
	return status.Error(codes.Unimplemented, method)
}

func fill(stream grpc.ServerStream, bytes int64) error {
	content := make([]byte, fillFrame)
	for ; bytes > 0; bytes -= fillFrame {
		if err := stream.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer(content[:min(bytes, fillFrame)])}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) wait(stream grpc.ServerStream) error {
	woken := make(chan struct{}, 1)
	b.mu.Lock()
	b.waiting[woken] = true
	b.mu.Unlock()
	defer func() { b.mu.Lock(); defer b.mu.Unlock(); delete(b.waiting, woken) }()
	change, mark := make([]byte, changeFrame), make([]byte, markFrame)
	if err := stream.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer(mark)}}); err != nil { // it is waiting now
		return err
	}
	for {
		select {
		case <-woken:
		case <-stream.Context().Done():
			return nil
		}
		for _, content := range [framesAfterEachLineRead][]byte{change, mark} {
			if err := stream.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer(content)}}); err != nil {
				return err
			}
		}
	}
}

func (b *bare) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.waiting {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// drainBare reads as many bytes as it asks the floor for.
func drainBare(ctx context.Context, address string, bytes int64) (int64, error) {
	conn, err := dialFrames(address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, fillMethod)
	if err != nil {
		return 0, err
	}
	request := binary.BigEndian.AppendUint64(nil, uint64(bytes))
	if err := stream.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer(request)}}); err != nil {
		return 0, err
	}
	for read := int64(0); ; {
		var f frame
		if err := stream.RecvMsg(&f); errors.Is(err, io.EOF) {
			return read, nil
		} else if err != nil {
			return read, err
		}
		read += int64(f.data.Len())
		f.data.Free()
	}
}
