package files_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/discovery/source/files"
	"github.com/pgmesh/pgmesh/discovery/source/sourcetest"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a directory under watch.
type watched struct {
	*files.Directory
	t       *testing.T
	path    string
	log     *journal.Journal
	batches chan kinds.Batch
	changes int             // in the last batch
	hosts   map[string]bool // names of the present services
}

func watch(t *testing.T, path string) *watched {
	t.Helper()
	w := &watched{t: t, path: path, log: &journal.Journal{}, batches: make(chan kinds.Batch, 100), hosts: map[string]bool{}}
	w.Directory = files.New(path, slog.New(slog.NewTextHandler(w.log, nil)), prometheus.NewRegistry())
	sourcetest.Run(t, w, func(b kinds.Batch) error {
		w.batches <- b
		b.TellInForce()
		return nil
	})
	return w
}

// next waits for a batch, and returns the names of all resources after it.
func (w *watched) next() []string {
	w.t.Helper()
	b := <-w.batches
	w.changes = len(b.Changes)
	for _, c := range b.Changes {
		delete(w.hosts, c.Key.Name)
		if c.Resource != nil {
			w.hosts[c.Key.Name] = true
		}
	}
	names := []string{}
	for name := range w.hosts {
		names = append(names, name)
	}
	return names
}

// pending returns the batches that came and were not read.
func (w *watched) pending() []kinds.Batch {
	var out []kinds.Batch
	for {
		select {
		case b := <-w.batches:
			out = append(out, b)
		default:
			return out
		}
	}
}

// until waits for a state of the directory.
func (w *watched) until(what string, reached func(files.Status) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return reached(w.Status()) }, 20*time.Second, time.Millisecond, what)
}

func (w *watched) inForce() {
	w.t.Helper()
	want, err := files.Version(w.path)
	require.NoError(w.t, err)
	w.until("the files as they are now", func(s files.Status) bool { return s.Version == want })
}

func service(name string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s}\n"+
		"spec: {hosts: [%s.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}\n---\n", name, name)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// Files may be made for others than Kubernetes, which allows only lower-case names.
func TestNamesMayBeInUpperCase(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), service("shop.DEFAULT-GROUP.public")+service("Shop-V1"))
	require.ElementsMatch(t, []string{"shop.DEFAULT-GROUP.public", "Shop-V1"}, watch(t, folder).next())
}

func TestASaveIsABatch(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), service("a"))
	write(t, filepath.Join(folder, "deep", "er", "b.yml"), service("b"))
	write(t, filepath.Join(folder, ".hidden.yaml"), service("hidden"))
	write(t, filepath.Join(folder, "notes.txt"), "not configuration")
	w := watch(t, folder)
	require.ElementsMatch(t, []string{"a", "b"}, w.next())
	_, err := w.Ready()
	require.NoError(t, err)

	write(t, filepath.Join(folder, "a.yaml"), service("a")+service("c")+service("d"))
	require.ElementsMatch(t, []string{"a", "b", "c", "d"}, w.next(), "the save adds two, at once")
	require.Equal(t, 2, w.changes, "what was there already has not changed")
	write(t, filepath.Join(folder, "new", "e.yaml"), service("e"))
	require.ElementsMatch(t, []string{"a", "b", "c", "d", "e"}, w.next(), "a folder that came later")
	require.NoError(t, os.Remove(filepath.Join(folder, "a.yaml")))
	require.ElementsMatch(t, []string{"b", "e"}, w.next())
	write(t, filepath.Join(folder, "new", "e.yaml"), service("e")+"# only a comment\n")
	w.inForce()
	require.Empty(t, w.pending(), "the same resources in other words")
}

func TestABadFileChangesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), service("a"))
	w := watch(t, folder)
	w.next()

	write(t, filepath.Join(folder, "a.yaml"), "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\nspec: {host: [x]}\n")
	w.until("the mistake is told", func(s files.Status) bool { return len(s.Unusable()) == 1 })
	write(t, filepath.Join(folder, "b.yaml"), service("b"))
	require.ElementsMatch(t, []string{"a", "b"}, w.next(), "what the file said before stays, the others go on")
	about, err := w.Ready()
	require.NoError(t, err)
	require.Contains(t, about, "spec.hosts: required field is missing")
	require.Contains(t, w.log.String(), `spec.host: unknown field`)
	require.Contains(t, about, "a.yaml")
	require.Contains(t, w.log.String(), "what it said before stays in force")

	write(t, filepath.Join(folder, "a.yaml"), service("c"))
	require.ElementsMatch(t, []string{"b", "c"}, w.next())
	w.until("mended", func(s files.Status) bool { return s.Problem() == "" })
}

func TestNothingIsServedBeforeEveryFileCanBeRead(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "later")
	w := watch(t, folder)
	w.until("no directory", func(s files.Status) bool { return s.Error != "" })
	_, err := w.Ready()
	require.ErrorContains(t, err, "no such file or directory")

	write(t, filepath.Join(folder, "a.yaml"), service("a"))
	write(t, filepath.Join(folder, "b.yaml"), "][")
	w.until("the mistake is told", func(s files.Status) bool { return len(s.Unusable()) == 1 })
	_, err = w.Ready()
	require.ErrorContains(t, err, "not valid YAML")
	require.Empty(t, w.pending())
	write(t, filepath.Join(folder, "b.yaml"), service("b"))
	require.ElementsMatch(t, []string{"a", "b"}, w.next())
}

func TestALinkSwapsAllFilesAtOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder := filepath.Join(root, "watched")
	write(t, filepath.Join(root, "1", "a.yaml"), service("a"))
	write(t, filepath.Join(root, "1", "b.yaml"), service("b"))
	write(t, filepath.Join(root, "2", "a.yaml"), service("c"))
	write(t, filepath.Join(root, "2", "b.yaml"), service("d"))
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(root, "1"), filepath.Join(folder, "current")))
	w := watch(t, folder)
	require.ElementsMatch(t, []string{"a", "b"}, w.next())
	require.NoError(t, os.Symlink(filepath.Join(root, "2"), filepath.Join(folder, "next")))
	require.NoError(t, os.Rename(filepath.Join(folder, "next"), filepath.Join(folder, "current")))
	for names := w.next(); len(names) != 2 || w.hosts["a"] || w.hosts["b"]; names = w.next() {
		// "next" may have been seen beside "current"
		require.Subset(t, []string{"a", "b", "c", "d"}, names)
	}
}

func TestTheDirectoryItselfMayBeALink(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(root, strconv.Itoa(i), "x.yaml"), service(name))
	}
	link := filepath.Join(root, "current")
	require.NoError(t, os.Symlink("0", link))
	w := watch(t, link)
	require.Equal(t, []string{"a"}, w.next())
	for i, name := range map[int]string{1: "b", 2: "c"} {
		require.NoError(t, os.Symlink(strconv.Itoa(i), link+"-next"))
		require.NoError(t, os.Rename(link+"-next", link))
		require.Equal(t, []string{name}, w.next())
	}
	write(t, filepath.Join(link, "y.yaml"), service("d"))
	require.Len(t, w.next(), 2)
}

func TestAResourceInTwoFilesCountsOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "1.yaml"), service("a"))
	write(t, filepath.Join(folder, "2.yaml"), service("a")+service("b"))
	w := watch(t, folder)
	require.ElementsMatch(t, []string{"a", "b"}, w.next())
	require.Contains(t, w.log.String(), "two files have this resource")
	require.NoError(t, os.Remove(filepath.Join(folder, "1.yaml")))
	require.ElementsMatch(t, []string{"a", "b"}, w.next(), "the other one is in force now")
}
