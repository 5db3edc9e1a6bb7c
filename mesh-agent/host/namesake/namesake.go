// Package namesake tells an agent that another one on its machine has its name in the mesh, as two do
// that were given none: they would take each other's place at discovery again and again.
//
// An agent holds its name by an abstract socket, which the kernel frees however the agent ends, and
// which agents of other accounts see, too. Any account could hold one: so an agent is told, and goes
// on.
package namesake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Name is what one agent alone should be called.
type Name struct {
	Discovery     []string // the addresses of discovery
	Namespace, ID string
}

// socket is the address that stands for the name. One that is no part of a file's path ends with the
// agent.
func (n Name) socket() string {
	sum := sha256.Sum256([]byte(strings.Join(n.Discovery, ",") + " " + n.Namespace + " " + n.ID))
	return "@pgmesh-mesh-agent-" + hex.EncodeToString(sum[:16])
}

// Holder holds a name for as long as it runs, once nobody else does.
type Holder struct {
	name   Name
	folder string // of this agent, for the other to name
	log    *slog.Logger

	mu    sync.Mutex
	other string // the state folder of the agent that has the name; "" if this one has it
}

// New returns a holder for the agent with a state folder.
func New(name Name, folder string, log *slog.Logger) *Holder {
	return &Holder{name: name, folder: folder, log: log}
}

const (
	// lookInterval is how often an agent looks whether the other has ended.
	lookInterval = 5 * time.Second
	// answerTimeout bounds the wait for what the other says.
	answerTimeout = time.Second
	// maxFolder bounds that: anybody may have the socket.
	maxFolder = 4 << 10
)

// Run takes the name as soon as nobody has it, and holds it until the context ends.
func (h *Holder) Run(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return nil // other systems have no such sockets
	}
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		listener, err := net.Listen("unix", h.name.socket())
		if err == nil {
			h.set("")
			return h.hold(ctx, listener)
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			h.log.Warn("whether another agent of this machine has the name of this one cannot be told", "error", err)
			return nil
		}
		h.set(cmp.Or(h.ask(), "(it does not say which)"))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// hold tells who asks which agent this is.
func (h *Holder) hold(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				h.log.Warn("agents of this machine with the name of this one are not told so any more", "error", err)
			}
			return nil
		}
		_ = conn.SetDeadline(time.Now().Add(answerTimeout))
		_, _ = io.WriteString(conn, h.folder) // who asks may be gone
		conn.Close()
	}
}

// ask returns the state folder of the agent that has the name, "" if it does not say.
func (h *Holder) ask() string {
	conn, err := net.DialTimeout("unix", h.name.socket(), answerTimeout)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	folder, _ := io.ReadAll(io.LimitReader(conn, maxFolder)) // what came counts
	return strings.ToValidUTF8(string(folder), "")
}

func (h *Holder) set(other string) {
	h.mu.Lock()
	before := h.other
	h.other = other
	h.mu.Unlock()
	switch {
	case before == "" && other != "":
		h.log.Error("two agents of this machine have one name", "error", h.Trouble())
	case before != "" && other == "":
		h.log.Info("no other agent of this machine has the name of this one any more", "proxy", h.name.ID)
	}
}

// Trouble says that another agent has the name, and what to do; "" if none has.
func (h *Holder) Trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.other == "" {
		return ""
	}
	return fmt.Sprintf("another agent of this machine, with the state folder %s, is %s at the same discovery, too, and the two take each other's place there again and again: "+
		"name one otherwise (id: NAME in its file, or mesh-agent run --id NAME), or end one", h.other, h.name.ID)
}
