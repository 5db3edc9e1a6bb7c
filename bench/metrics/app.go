package main

import (
	"bufio"
	"bytes"
	"net"
)

// app answers all requests alike, as cheaply as a program can: the more it took itself, the less
// the cost of anything else would weigh.
type app struct{ net.Listener }

const answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nhello\n"

func startApp() (*app, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &app{l}
	go a.accept()
	return a, nil
}

func (a *app) port() int { return a.Addr().(*net.TCPAddr).Port }

func (a *app) accept() {
	for {
		conn, err := a.Accept()
		if err != nil {
			return // closed
		}
		go serve(conn)
	}
}

// serve answers the requests of a connection. They have no bodies.
func serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 4<<10)
	for {
		if _, err := head(in, nil); err != nil {
			return
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// head reads the head of a message, and returns its first line. It tells of each header.
func head(in *bufio.Reader, tell func(line []byte)) (first string, err error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
			return first, nil
		case first == "":
			first = string(line)
		case tell != nil:
			tell(line)
		}
	}
}
