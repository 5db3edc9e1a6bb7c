package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// The time that an Envoy is given which was killed, as with its agent, and closes its sockets yet; and how
// often it is looked.
const (
	untilFree = 3 * time.Second
	lookAgain = 20 * time.Millisecond
)

// CheckAdmin returns an error if the address of Envoy's admin API is in use, by which Envoy would end.
// An agent asks before it takes anybody's place in the mesh. An Envoy that is to be adopted or replaced
// has the address itself, or hands its own over.
func CheckAdmin(ctx context.Context, folder, address string, log *slog.Logger) error {
	for began, told := time.Now(), false; ; {
		free, err := adminIsFree(folder, address)
		switch {
		case free || err != nil:
			return err
		case time.Since(began) > untilFree:
			return adminInUse(address)
		case !told:
			told = true
			log.InfoContext(ctx, "the address of Envoy's admin API is in use; waiting, for an Envoy that was killed may hold it yet", "address", address, "for", untilFree)
		}
		if !wait.For(ctx, lookAgain) {
			return adminInUse(address)
		}
	}
}

func adminIsFree(folder, address string) (bool, error) {
	if _, port, _ := net.SplitHostPort(address); port == "0" || runs(folder) {
		return true, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE), nil // of anything else, Envoy says what is wrong
	}
	return true, l.Close()
}

// CheckAdmin is the function of that name for this Envoy, as its bootstrap says.
func (s *Supervisor) CheckAdmin(ctx context.Context) error {
	var b struct {
		Admin struct {
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    uint16 `json:"port_value"`
				} `json:"socket_address"`
			} `json:"address"`
		} `json:"admin"`
	}
	if err := json.Unmarshal(s.Bootstrap, &b); err != nil {
		return fmt.Errorf("read the bootstrap: %w", err)
	}
	at := b.Admin.Address.Socket
	return CheckAdmin(ctx, s.Folder, net.JoinHostPort(at.Address, strconv.Itoa(int(at.Port))), s.Log)
}

func adminInUse(address string) error {
	return fmt.Errorf("the address %s of Envoy's admin API is in use (by another mesh-agent?): "+
		"end the other program, or choose another address with --admin", address)
}

// runs reports whether an Envoy of an earlier agent runs still, as far as can be told.
func runs(folder string) bool {
	content, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	var records []record
	if json.Unmarshal(content, &records) != nil {
		return true
	}
	for _, r := range records {
		if h, err := pinned(r); err == nil {
			h.close()
			return true
		}
	}
	return false
}
