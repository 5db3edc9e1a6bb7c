package embedded

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
)

// builds are the versions that can be downloaded, by major number. The empty key is the default.
var builds = map[string]embeddedpostgres.PostgresVersion{
	"": embeddedpostgres.V18, "18": embeddedpostgres.V18, "17": embeddedpostgres.V17, "16": embeddedpostgres.V16,
	"15": embeddedpostgres.V15, "14": embeddedpostgres.V14, "13": "13.23.0", // The library's own is no longer published.
}

// download fetches a build that embedded-postgres publishes, once for each machine, and returns its
// bin directory.
func download(ctx context.Context, major string, who account, log *slog.Logger) (string, error) {
	build, ok := builds[major]
	if !ok {
		return "", fmt.Errorf("there is no build of Postgres %s to download: choose 13 to 18", major)
	}
	home, err := who.cacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(home, "postgres-"+string(build))
	bin := filepath.Join(root, "bin")
	if complete(bin) {
		return bin, nil
	}
	unlock, err := lockFile(ctx, filepath.Join(home, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if complete(bin) {
		return bin, nil
	}
	log.Info("downloading Postgres", "version", build, "from", "Maven Central", "to", root)
	fetched := make(chan error, 1)
	go func() { fetched <- fetch(repository, home, root, build) }()
	return bin, awaitDownload(ctx, fetched, log)
}

func awaitDownload(ctx context.Context, fetched <-chan error, log *slog.Logger) error {
	began := time.Now()
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-fetched:
			if err == nil {
				log.Info("downloaded Postgres", "took", time.Since(began).Round(time.Millisecond))
			}
			return err
		case <-tick.C:
			log.Info("still downloading Postgres", "for", time.Since(began).Round(time.Second))
		case <-ctx.Done():
			return fmt.Errorf("downloading Postgres: %w", context.Cause(ctx))
		}
	}
}

// fetch unpacks the build below root. The library can only start a server, which for root it
// cannot; but before that it downloads, checks and unpacks. So it is given a data directory that no
// server starts from, and judged by what it has unpacked. It downloads through a server of ours,
// since by itself it believes the digests of the repository.
func fetch(repository, home, root string, build embeddedpostgres.PostgresVersion) error {
	work, err := os.MkdirTemp(home, "unpack-")
	if err != nil {
		return fmt.Errorf("downloading Postgres: %w", err)
	}
	defer os.RemoveAll(work)
	unpacked, data := filepath.Join(work, "postgres"), filepath.Join(work, "data")
	if err := unstartable(data, build); err != nil {
		return err
	}
	port, err := freeport.New()
	if err != nil {
		return err
	}
	published, err := servePinned(repository)
	if err != nil {
		return fmt.Errorf("downloading Postgres: %w", err)
	}
	library := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().BinaryRepositoryURL(published.url).
		Version(build).Port(uint32(port)).Logger(io.Discard).
		CachePath(work).RuntimePath(filepath.Join(work, "runtime")).DataPath(data).BinariesPath(unpacked))
	startErr := library.Start()
	http.DefaultClient.CloseIdleConnections()
	if refused := published.end(); refused != nil {
		startErr = refused
	}
	if !complete(filepath.Join(unpacked, "bin")) {
		return fmt.Errorf("downloading Postgres: %w; install Postgres 13 or newer, or set %s to the directory of its binaries", startErr, BinDirVariable)
	}
	return os.Rename(unpacked, root)
}

// unstartable creates a directory that looks initialised but lacks what a server needs.
func unstartable(data string, build embeddedpostgres.PostgresVersion) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(build), ".")
	return os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major+"\n"), 0o600)
}
