// Package namesake tells an agent that another agent on its machine has the same name in the mesh. Two
// agents without --id do, and would take each other's place at discovery again and again.
//
// An agent holds its name by an abstract socket, which the kernel frees however the agent ends, and
// which agents of other accounts see, too. The second agent waits for the first with what would take
// its place. Any account could hold such a socket: so it waits for those of root and of its own account
// alone, and is only told of others.
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

// socket is the address that stands for the name. It is abstract, and no file, so it ends with the agent.
func (n Name) socket() string {
	sum := sha256.Sum256([]byte(strings.Join(n.Discovery, ",") + " " + n.Namespace + " " + n.ID))
	return "@pgmesh-mesh-agent-" + hex.EncodeToString(sum[:16])
}

// Holder waits until nobody else has a name, and then holds it while it runs.
type Holder struct {
	// Waits, if not nil, is told why this agent has to wait for the other. Set it before Run.
	Waits func(why string)

	name   Name
	folder string // of this agent, for the other to name
	log    *slog.Logger
	may    chan struct{} // closed once nobody has to be waited for

	mu    sync.Mutex
	other string // the state folder of the agent that has the name; "" if this one has it
}

// New returns a holder for the agent with a state folder.
func New(name Name, folder string, log *slog.Logger) *Holder {
	return &Holder{name: name, folder: folder, log: log, may: make(chan struct{})}
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
		h.permit()
		return nil // other systems have no such sockets
	}
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for silent := 0; ; {
		listener, err := net.Listen("unix", h.name.socket())
		if err == nil {
			h.set("")
			h.permit()
			return h.hold(ctx, listener)
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			h.log.Warn("whether another agent of this machine has the name of this one cannot be told", "error", err)
			h.permit()
			return nil
		}
		folder, trusted, err := h.ask()
		if silent++; err == nil {
			silent = 0
		}
		if err == nil && !trusted || silent > 1 { // once, the other may just have ended
			h.permit()
		}
		h.set(cmp.Or(folder, "(it does not say which)"))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// permit ends the wait for the other agent.
func (h *Holder) permit() {
	if h.waiting() {
		close(h.may)
	}
}

func (h *Holder) waiting() bool {
	select {
	case <-h.may:
		return false
	default:
		return true
	}
}

// Await waits until this agent may take the name's place at discovery. It returns false if the context
// ends before.
func (h *Holder) Await(ctx context.Context) bool {
	select {
	case <-h.may:
		return true
	case <-ctx.Done():
		return false
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

// ask returns the state folder of the agent that has the name, "" if it does not say, and whether its
// account is one that may keep the name from this agent.
func (h *Holder) ask() (folder string, trusted bool, err error) {
	conn, err := net.DialTimeout("unix", h.name.socket(), answerTimeout)
	if err != nil {
		return "", false, err
	}
	defer conn.Close()
	if trusted, err = trusts(conn.(*net.UnixConn)); err != nil {
		return "", false, err
	}
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	said, _ := io.ReadAll(io.LimitReader(conn, maxFolder)) // what came counts
	return strings.ToValidUTF8(string(said), ""), trusted, nil
}

func (h *Holder) set(other string) {
	h.mu.Lock()
	before := h.other
	h.other = other
	h.mu.Unlock()
	switch {
	case before == "" && other != "":
		h.log.Error("two agents of this machine have one name", "error", h.Trouble())
		if h.waiting() && h.Waits != nil {
			h.Waits("another agent of this machine has its name, with the state folder " + other + ", and this one waits until that has ended")
		}
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
	then := "the two take each other's place there again and again"
	if h.waiting() {
		then = "this one registers no service before that one has ended"
	}
	return fmt.Sprintf("another agent of this machine, with the state folder %s, is %s at the same discovery, too, and %s: "+
		"name one otherwise (id: NAME in its file, or mesh-agent run --id NAME), or end one", h.other, h.name.ID, then)
}
