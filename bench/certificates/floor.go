package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/bench/child"
	"github.com/pgmesh/pgmesh/identity/authority"
)

// startFloor starts this program again, as the floor.
func startFloor(f *files) (*server, error) {
	p, err := child.Start("--floor", f.folder)
	if err != nil {
		return nil, err
	}
	address, err := p.Line()
	if err != nil {
		return nil, err
	}
	return &server{pid: p.Pid(), stop: p.Stop, renew: func(f *files) error { return renewBare(f, address) }}, nil
}

// serveFloor handles each connection with a handshake, reading a request, and signing it.
func serveFloor(folder string) error {
	signer, err := loadAuthority(folder)
	if err != nil {
		return err
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(folder, "server.pem"), filepath.Join(folder, "server.key"))
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, SessionTicketsDisabled: true,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(signer.Roots()...),
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, l.Addr()) // for the parent process
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_ = answer(conn, signer) // an error shows at the client
		}()
	}
}

func answer(conn net.Conn, signer *authority.Authority) error {
	text, err := readPart(conn)
	if err != nil {
		return err
	}
	csr, err := authority.ParseRequest(text)
	if err != nil {
		return err
	}
	issued, err := signer.Sign(authority.Request{CSR: csr, ID: spiffeid.RequireFromString("spiffe://cluster.local/ns/shop/sa/cart"), Lifetime: time.Hour})
	if err != nil {
		return err
	}
	return writePart(conn, issued.ChainPEM)
}

func renewBare(f *files, address string) error {
	conn, err := tls.Dial("tcp", address, f.clientConfig())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := writePart(conn, f.csr); err != nil {
		return err
	}
	_, err = readPart(conn)
	return err
}

func writePart(w io.Writer, part []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(part))), part...))
	return err
}

func readPart(r io.Reader) ([]byte, error) {
	b := bufio.NewReader(r)
	var size uint32
	if err := binary.Read(b, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	const most = 1 << 16
	part := make([]byte, min(size, most))
	_, err := io.ReadFull(b, part)
	return part, err
}
