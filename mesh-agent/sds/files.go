package sds

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/internal/authority"
)

const (
	certificatePrefix = "file-cert:"
	rootsPrefix       = "file-root:"

	// lookEvery is how long a change of a file may go unnoticed. Files are read and compared, for times of change have their own resolution,
	// and folders of links are swapped under them.
	lookEvery = time.Second

	// mostFiles bounds what is looked at: names are made up elsewhere.
	mostFiles = 1000
)

// file is a certificate and its key, or roots, which have none.
type file struct{ path, key string }

// named reads the name of a secret that is files.
func named(name string) (file, bool) {
	if rest, ok := strings.CutPrefix(name, certificatePrefix); ok {
		cert, key, both := strings.Cut(rest, "~")
		return file{path: cert, key: key}, both && cert != "" && key != ""
	}
	path, ok := strings.CutPrefix(name, rootsPrefix)
	return file{path: path}, ok && path != ""
}

// files are those that somebody has asked for. One that is missing or broken is looked at on: Envoy goes on with what there was.
type files struct {
	put func(...*tlsv3.Secret)
	log *slog.Logger

	mu     sync.Mutex
	wanted map[string]*looked
}

// looked is what came of looking at a file.
type looked struct {
	file

	seen [sha256.Size]byte
	said string // what is wrong, so that it is said once
}

func newFiles(put func(...*tlsv3.Secret), log *slog.Logger) *files {
	return &files{put: put, log: log, wanted: map[string]*looked{}}
}

// want has a name looked at from now on.
func (f *files) want(name string) {
	at, isFile := named(name)
	if !isFile {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wanted[name] != nil || len(f.wanted) >= mostFiles {
		return
	}
	f.wanted[name] = &looked{file: at}
	f.look(name)
}

// own serves files under other names than theirs.
func (f *files) own(all map[string]file) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, at := range all {
		if _, _, err := at.read(name); err != nil {
			return err
		}
		f.wanted[name] = &looked{file: at}
		f.look(name)
	}
	return nil
}

func (f *files) watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.lookAll()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *files) lookAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range maps.Keys(f.wanted) {
		f.look(name)
	}
}

func (f *files) look(name string) {
	l := f.wanted[name]
	made, stamp, err := l.read(name)
	if err != nil {
		if text := err.Error(); text != l.said {
			f.log.Error("a file that Envoy needs cannot be used; what there was before stays in force", "secret", name, "error", err)
			l.said = text
		}
		return
	}
	if l.said = ""; stamp != l.seen {
		l.seen = stamp
		f.put(made)
	}
}

// read makes a secret of the files, if it is one that Envoy can use.
func (f file) read(name string) (made *tlsv3.Secret, stamp [sha256.Size]byte, err error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, stamp, err
	}
	if f.key == "" {
		if _, err := authority.ParseCertificates(content); err != nil {
			return nil, stamp, fmt.Errorf("%s: %w", f.path, err)
		}
		return roots(name, content), sha256.Sum256(content), nil
	}
	key, err := os.ReadFile(f.key)
	if err != nil {
		return nil, stamp, err
	}
	if _, err := tls.X509KeyPair(content, key); err != nil {
		return nil, stamp, fmt.Errorf("%s and %s: %w", f.path, f.key, err)
	}
	return certificate(name, content, key), sha256.Sum256(append(slices.Clip(content), key...)), nil
}
