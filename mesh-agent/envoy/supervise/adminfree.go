package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// CheckAdmin returns an error if the address of Envoy's admin API is in use, by which Envoy would end.
// An agent asks before it takes anybody's place in the mesh. An Envoy that is to be adopted or replaced
// has the address itself, or hands its own over.
func CheckAdmin(folder, address string) error {
	if _, port, _ := net.SplitHostPort(address); port == "0" || runs(folder) {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return adminInUse(address)
	}
	if err != nil {
		return nil //nolint:nilerr // Envoy says what is wrong with it
	}
	return l.Close()
}

// CheckAdmin is the function of that name for this Envoy, as its bootstrap says.
func (s *Supervisor) CheckAdmin() error {
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
	return CheckAdmin(s.Folder, net.JoinHostPort(at.Address, strconv.Itoa(int(at.Port))))
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
