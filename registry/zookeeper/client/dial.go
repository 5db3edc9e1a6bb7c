package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The numbers of the protocol.
const (
	xidEvent int32 = -1
	xidPing  int32 = -2
	xidAuth  int32 = -4

	operationExists   int32 = 3
	operationData     int32 = 4
	operationChildren int32 = 8
	operationSync     int32 = 9
	operationPing     int32 = 11
	operationAuth     int32 = 100
	operationAddWatch int32 = 106
	operationClose    int32 = -11

	passwordBytes = 16
	mostGreeting  = 1 << 10
)

// Dial opens a session with one of the servers: the first that answers.
func Dial(ctx context.Context, s Settings) (*Conn, error) {
	var all []error
	for i := range s.Servers {
		server := s.Servers[(s.First+i)%len(s.Servers)]
		c, err := s.dial(ctx, server)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		all = append(all, fmt.Errorf("%s: %w", server, err))
	}
	return nil, errors.Join(all...)
}

func (s Settings) dial(ctx context.Context, server string) (*Conn, error) {
	within, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	conn, err := s.Dial(within, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := s.greet(conn); err != nil {
		conn.Close()
		return nil, err
	}
	c := start(s, server, conn)
	if s.Credentials != "" {
		r := begin(xidAuth, operationAuth).int(0).text("digest").text(s.Credentials)
		if err := c.send(r, true); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// greet asks for a session.
func (s Settings) greet(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(s.Patience))
	r := make(request, 4, 64).int(0).long(0).int(int32(s.Patience.Milliseconds())).long(0)
	r = r.text(string(make([]byte, passwordBytes))).bool(false) // a server that has lost the others is of no use
	if _, err := conn.Write(r.packet()); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return s.refused(err)
	}
	size := (&answer{rest: head[:]}).int()
	if size < 0 || size > mostGreeting {
		return errors.New("what answers is no ZooKeeper, or it wants TLS")
	}
	a := &answer{rest: make([]byte, size)}
	if _, err := io.ReadFull(conn, a.rest); err != nil {
		return s.refused(err)
	}
	_, _, session := a.int(), a.int(), a.long()
	if a.err == nil && session == 0 {
		a.err = errors.New("ZooKeeper gives no session")
	}
	_ = conn.SetDeadline(time.Time{})
	return a.err
}

func (s Settings) refused(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("ZooKeeper gives no session: it has no leader, wants TLS, or has too many connections from here (maxClientCnxns)")
	}
	return inWords(err, s.Patience)
}
