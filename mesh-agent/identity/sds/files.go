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

	"github.com/pgmesh/pgmesh/identity/authority"
)

const (
	certificatePrefix = "file-cert:"
	rootsPrefix       = "file-root:"

	// pollInterval is how often files are checked. Their content is compared, because modification
	// times are coarse and files may be replaced by swapping a symbolic link to their folder.
	pollInterval = time.Second

	// maxFiles bounds the watched files, as their names come from outside.
	maxFiles = 1000
)

// file is a certificate with its key, or roots without one.
type file struct{ path, key string }

// parseName parses the name of a secret in files.
func parseName(name string) (file, bool) {
	if rest, ok := strings.CutPrefix(name, certificatePrefix); ok {
		cert, key, both := strings.Cut(rest, "~")
		return file{path: cert, key: key}, both && cert != "" && key != ""
	}
	path, ok := strings.CutPrefix(name, rootsPrefix)
	return file{path: path}, ok && path != ""
}

// files watches the files that were asked for. One that is missing or broken stays watched: Envoy
// keeps the previous content.
type files struct {
	put func(...*tlsv3.Secret)
	log *slog.Logger

	mu      sync.Mutex
	watched map[string]*watchedFile
}

// watchedFile is a file and what was last read from it.
type watchedFile struct {
	file

	digest    [sha256.Size]byte
	lastError string // last logged error, so that it is logged once
}

func newFiles(put func(...*tlsv3.Secret), log *slog.Logger) *files {
	return &files{put: put, log: log, watched: map[string]*watchedFile{}}
}

// add starts to watch the file with a name, if it is one.
func (f *files) add(name string) {
	at, isFile := parseName(name)
	if !isFile {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watched[name] != nil || len(f.watched) >= maxFiles {
		return
	}
	f.watched[name] = &watchedFile{file: at}
	f.reload(name)
}

// serveAs serves files under given names. All must be usable.
func (f *files) serveAs(all map[string]file) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, at := range all {
		if _, _, err := at.read(name); err != nil {
			return err
		}
		f.watched[name] = &watchedFile{file: at}
		f.reload(name)
	}
	return nil
}

func (f *files) poll(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.reloadAll()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *files) reloadAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range maps.Keys(f.watched) {
		f.reload(name)
	}
}

// reload passes on a file that has changed and can be used. The caller holds f.mu.
func (f *files) reload(name string) {
	l := f.watched[name]
	made, stamp, err := l.read(name)
	if err != nil {
		if text := err.Error(); text != l.lastError {
			f.log.Error("a file that Envoy needs cannot be used; what there was before stays in force", "secret", name, "error", err)
			l.lastError = text
		}
		return
	}
	if l.lastError = ""; stamp != l.digest {
		l.digest = stamp
		f.put(made)
	}
}

// read returns the secret in the files, if Envoy can use it, and a digest of their content.
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
