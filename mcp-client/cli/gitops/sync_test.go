package gitops_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-client/cli"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// repository is one that people push to.
type repository struct {
	t      *testing.T
	folder string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.folder, "-c", "user.name=Ann", "-c", "user.email=ann@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// commit writes a file, or removes it if it has no text.
func (r *repository) commit(subject, name, text string, flags ...string) (id string) {
	r.t.Helper()
	at := filepath.Join(r.folder, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(at), 0o700))
	if text == "" {
		r.git("rm", "--quiet", name)
	} else {
		require.NoError(r.t, os.WriteFile(at, []byte(text), 0o600))
		r.git("add", name)
	}
	r.git(append([]string{"commit", "--quiet", "-m", subject}, flags...)...)
	return r.git("rev-parse", "HEAD")
}

// Each commit becomes a revision that tells of it, and what a commit has no more is deleted where it is to be.
func TestACommitBecomesARevision(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	m.Apply(clitest.VirtualService("other", "by-hand", "v1"))
	first := r.commit("Send reviews to v1", "mesh/reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"))
	r.commit("Have ratings", "mesh/deeper/ratings.yaml", clitest.VirtualService("shop", "ratings", "v1"))
	r.commit("Say what this is", "README.md", "# Ours\n")
	args := []string{"sync", r.folder, "--path", "mesh", "--once", "--prune", "--prune-namespace", "shop"}

	dry := m.Run(append(args, "--dry-run")...)
	require.Equal(t, 1, dry.Code, dry.Err)
	require.Contains(t, dry.Out, "  virtualservice shop/reviews created\n")
	require.Equal(t, 1, m.Stored())
	shown := m.Run(append(args, "--dry-run", "-o", "json")...)
	require.Equal(t, 1, shown.Code, shown.Err)
	require.ElementsMatch(t, []string{"created shop/ratings", "created shop/reviews"}, changesOf(t, shown.Out))
	m.OK(args...)
	require.Equal(t, 3, m.Stored())
	var message string
	m.Query("SELECT message FROM mesh.revisions ORDER BY revision DESC LIMIT 1", &message)
	require.Regexp(t, "^Say what this is [(]commit "+r.git("rev-parse", "HEAD")+" by Ann <ann@example.com>; mesh of "+filepath.Base(r.folder)+", run [0-9a-f]{8}[)]$", message)
	require.Zero(t, m.Run(append(args, "--dry-run")...).Code, "there is nothing to change any more")

	r.commit("No ratings", "mesh/deeper/ratings.yaml", "")
	for _, format := range []string{"json", "yaml"} {
		shown = m.Run(append(args, "--dry-run", "-o", format)...)
		require.Equal(t, 1, shown.Code, shown.Err)
		require.Equal(t, []string{"deleted shop/ratings"}, changesOf(t, shown.Out))
	}
	dry = m.Run(append(args, "--dry-run")...)
	require.Equal(t, 1, dry.Code, dry.Err)
	require.Equal(t, 1, strings.Count(dry.Out, "virtualservice shop/ratings deleted\n"), dry.Out)
	require.NotContains(t, dry.Out, "more", "what was deleted is told")
	require.Contains(t, m.OK(args...), "virtualservice shop/ratings deleted")
	require.Equal(t, 2, m.Stored(), "what is elsewhere stays")

	m.OK("sync", r.folder, "--path", "mesh", "--once", "--branch", "main")
	r.git("tag", "first", first)
	m.OK("sync", r.folder, "--path", "mesh", "--once", "--branch", "first")
}

// changesOf reads what a program would read of a sync: all of the text has to be one document.
func changesOf(t *testing.T, text string) (changes []string) {
	t.Helper()
	var read struct {
		Changes []struct{ Action, Namespace, Name string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &read), text)
	for _, c := range read.Changes {
		changes = append(changes, c.Action+" "+c.Namespace+"/"+c.Name)
	}
	return changes
}

// A commit with a mistake changes nothing, says where it is in the repository, and the next one counts.
func TestAMistakeChangesNothing(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	r.commit("Begin", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"))
	s := start(t, m, r.folder)
	s.says("commit ", "revision 1, 1 changed")
	r.commit("Break it", "reviews.yaml", strings.Replace(clitest.VirtualService("shop", "reviews", "v2"), "hosts:", "hostz:", 1))
	s.says("reviews.yaml: document 1", `unknown field "hostz"`, "trying again")
	require.NotContains(t, s.text(), "pgmesh-sync-", "the folder of the program is nobody's business")
	s.unready("nothing was changed, because of the mistake above")
	require.Equal(t, 1, m.Stored())
	id := r.commit("Mend it", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v3"))
	s.says(id[:12]+` "Mend it"`, "revision 2, 1 changed")
	s.ready(id)
}

// What somebody changes beside the repository is told once, and put back if that is asked for.
func TestDrift(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	id := r.commit("Begin", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"))
	watching := start(t, m, r.folder)
	watching.says("revision 1, 1 changed")
	m.Apply(clitest.VirtualService("shop", "reviews", "v2"))
	watching.says("drift: 1 resource is not as commit "+id[:12], "virtualservice shop/reviews configured\n    spec.http[0].route[0].destination.host: v2 -> v1\n")
	watching.passes()
	m.Apply(clitest.VirtualService("shop", "elsewhere", "v1")) // has it look again
	watching.passes()
	require.Equal(t, 1, strings.Count(watching.text(), "drift:"), "it is told once")
	require.Contains(t, watching.metrics(), "pgmesh_sync_drifted_resources 1\n")

	putting := start(t, m, r.folder, "--drift", "revert")
	putting.says("in the mesh already", "put back what somebody had changed: revision 4, 1 changed")
	m.Apply(clitest.VirtualService("shop", "reviews", "v4"))
	putting.says("put back what somebody had changed: revision 6")
	var message string
	m.Query("SELECT message FROM mesh.revisions WHERE revision = 6", &message)
	require.Contains(t, message, "put back: Begin (commit "+id)
	watching.passes()
	require.Contains(t, watching.metrics(), "pgmesh_sync_drifted_resources 0\n")
}

// A sync that begins anew changes nothing that it had done before: what somebody changed at night stays until somebody merges.
func TestDriftOutlivesARestart(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	id := r.commit("Begin", "mesh/reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"))
	once := []string{"sync", r.folder, "--once", "--path", "mesh"}
	m.OK(once...)
	require.Contains(t, m.OK(once...), "nothing to change")
	m.Apply(clitest.VirtualService("shop", "reviews", "at-night"))
	newest := func() (revision int) {
		m.Query("SELECT max(revision) FROM mesh.revisions", &revision)
		return revision
	}
	for range 2 {
		told := m.Run(once...)
		require.Equal(t, 1, told.Code, told.Err)
		require.Contains(t, told.Err, "drift: 1 resource is not as commit "+id[:12])
		require.Contains(t, told.Out, "virtualservice shop/reviews configured\n    spec.http[0].route[0].destination.host: at-night -> v1\n")
	}
	shown := m.Run(append(once, "-o", "json")...)
	require.Equal(t, 1, shown.Code)
	require.Equal(t, []string{"configured shop/reviews"}, changesOf(t, shown.Out))
	going := start(t, m, r.folder, "--path", "mesh")
	going.says(id[:12]+` "Begin" of Ann <ann@example.com>: in the mesh already`, "drift: 1 resource is")
	going.ready(id)
	require.Contains(t, going.metrics(), "pgmesh_sync_drifted_resources 1\n")
	require.Equal(t, 2, newest(), "nothing was put back")

	m.OK("sync", r.folder, "--once", "--path", "mesh/reviews.yaml") // another sync, which has not brought it
	require.Equal(t, 3, newest())
	m.Apply(clitest.VirtualService("shop", "reviews", "at-night"))
	require.Contains(t, m.OK(append(once, "--drift", "revert")...), "revision 5")
	m.Apply(clitest.VirtualService("shop", "left", "v1"))
	require.Contains(t, m.OK(append(once, "--prune", "--prune-namespace", "shop")...), "shop/left deleted", "with other flags it is another commit to bring")
	m.Apply(clitest.VirtualService("shop", "reviews", "at-night"))
	next := r.commit("Go on", "mesh/ratings.yaml", clitest.VirtualService("shop", "ratings", "v1"))
	going.says("commit "+next[:12], "2 changed")
}

// A message that only quotes one of sync does not count for one.
func TestAQuotedMessageIsNoSync(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	r.commit("Begin", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"))
	m.OK("sync", r.folder, "--once")
	var message string
	m.Query("SELECT message FROM mesh.revisions WHERE revision = 1", &message)
	r.commit("Next", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v2"))
	m.OK("sync", r.folder, "--once")
	m.Pipe(clitest.VirtualService("shop", "other", "v1"), "apply", "-f", "-", "-m", message+" as it was once")
	require.Contains(t, m.OK("sync", r.folder, "--once"), "nothing to change")
	m.Apply(clitest.VirtualService("shop", "reviews", "at-night"))
	require.Equal(t, 1, m.Run("sync", r.folder, "--once").Code, "a message that only contains the words is not counted")
}

// Nobody keeps a commit out of the mesh by a message that says it is there: those of the sync's own name count.
func TestNobodyElseSaysWhatWasSynced(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	by := func(name string) (run func(args ...string) clitest.Result) {
		token := strings.TrimSpace(m.OK("token", "create", name, "--scope", "write:shop"))
		return func(args ...string) clitest.Result { return m.Run(append(args, "--token", token)...) }
	}
	git, mallory := by("git"), by("mallory")
	first := r.commit("Begin", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"))
	require.Zero(t, git("sync", r.folder, "--once").Code)
	var message string
	m.Query("SELECT message FROM mesh.revisions WHERE revision = 1", &message)
	next := r.commit("Next", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v2"))
	forged := strings.Replace(message, first, next, 1)
	require.Zero(t, mallory("label", "vs", "reviews", "-n", "shop", "a=b", "-m", forged).Code)
	brought := git("sync", r.folder, "--once")
	require.Zero(t, brought.Code, brought.Err)
	require.Contains(t, brought.Out, "revision 3")

	require.Zero(t, mallory("patch", "vs", "reviews", "-n", "shop", "-p", `{"metadata":{"labels":{"a":"c"}}}`).Code)
	require.Equal(t, 1, git("sync", r.folder, "--once").Code, "its own counts")
}

// What would change is told with its fields, for people and for programs.
func TestADryRunNamesFields(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	m.Apply(clitest.VirtualService("shop", "reviews", "v1"))
	many := strings.Replace(clitest.VirtualService("shop", "reviews", "v2"), "spec:", "  annotations: {a: '1', b: '2', c: '3', d: '4', e: '5', f: '6'}\nspec:", 1)
	r.commit("Much", "reviews.yaml", many)
	args := []string{"sync", r.folder, "--once", "--dry-run"}
	require.Contains(t, m.Run(args...).Out, "  virtualservice shop/reviews configured\n    metadata.annotations.a: (none) -> 1\n    metadata.annotations.b: (none) -> 2\n"+
		"    metadata.annotations.c: (none) -> 3\n    metadata.annotations.d: (none) -> 4\n    metadata.annotations.e: (none) -> 5\n    and 2 more fields\n")
	r.commit("Little", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v2"))
	var read struct{ Changes []struct{ Fields []string } }
	require.NoError(t, yaml.Unmarshal([]byte(m.Run(append(args, "-o", "json")...).Out), &read))
	require.Equal(t, []string{"spec.http[0].route[0].destination.host: v1 -> v2"}, read.Changes[0].Fields)
}

// A strict sync refuses a commit that would cause a problem, and takes the one that mends it.
func TestAStrictSyncRefusesProblems(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	r.commit("Begin", "reviews.yaml", clitest.VirtualService("shop", "reviews", "gone.example.com"))
	refused := m.Run("sync", r.folder, "--once", "--strict")
	require.Equal(t, 3, refused.Code)
	require.Contains(t, refused.Err, `VirtualService shop/reviews: spec.http[0].route[0].destination.host: no ServiceEntry`)
	require.Contains(t, refused.Err, "nothing was changed")
	require.Zero(t, m.Stored())
	s := start(t, m, r.folder, "--strict")
	s.says("no ServiceEntry", "trying again")
	s.unready("nothing was changed")
	require.Zero(t, m.Stored())
	id := r.commit("Have it", "gone.yaml", `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: gone, namespace: shop}, spec: {hosts: [gone.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}}`)
	s.ready(id)

	r.commit("A chart", "values.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}\n")
	refused = m.Run("sync", r.folder, "--once", "--strict")
	require.Equal(t, 3, refused.Code)
	require.Contains(t, refused.Err, `unknown kind "Deployment"`)
	require.Zero(t, m.Run("sync", r.folder, "--once").Code)
}

// Commits count that are signed by somebody who may.
func TestCommitsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("there is no ssh-keygen, which signs and checks commits")
	}
	m, r := clitest.Start(t), newRepository(t)
	keys := t.TempDir()
	signer := func(name string) (flags []string, public string) {
		at := filepath.Join(keys, name)
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at).CombinedOutput()
		require.NoError(t, err, "%s", out)
		text, err := os.ReadFile(at + ".pub")
		require.NoError(t, err)
		return []string{"config", "user.signingkey", at}, string(text)
	}
	ann, public := signer("ann")
	mallory, _ := signer("mallory")
	allowed := filepath.Join(keys, "allowed")
	require.NoError(t, os.WriteFile(allowed, []byte("ann@example.com "+public), 0o600))
	r.git("config", "gpg.format", "ssh")
	sync := func() clitest.Result { return m.Run("sync", r.folder, "--once", "--allowed-signers", allowed) }

	r.git(ann...)
	r.commit("Begin", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"), "-S")
	require.Zero(t, sync().Code)
	r.git(mallory...)
	r.commit("Take over", "reviews.yaml", clitest.VirtualService("shop", "reviews", "evil"), "-S")
	require.Equal(t, 1, sync().Code)
	r.commit("Without a name", "reviews.yaml", clitest.VirtualService("shop", "reviews", "worse"))
	refused := sync()
	require.Equal(t, 1, refused.Code)
	require.Contains(t, refused.Err, `"Without a name" of Ann <ann@example.com> is not signed by anybody in `)
	var revision int
	m.Query("SELECT max(revision) FROM mesh.revisions", &revision)
	require.Equal(t, 1, revision)
}

// A repository cannot have files of the machine read, nor programs run.
func TestALinkIsNotFollowed(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	require.NoError(t, os.WriteFile(secret, []byte(clitest.VirtualService("shop", "stolen", "v1")), 0o600))
	r.commit("Begin", "reviews.yaml", clitest.VirtualService("shop", "reviews", "v1"))
	require.NoError(t, os.Symlink(secret, filepath.Join(r.folder, "linked.yaml")))
	r.git("add", "linked.yaml")
	r.git("commit", "--quiet", "-m", "Link")
	refused := m.Run("sync", r.folder, "--once")
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Err, "linked.yaml")
	require.Zero(t, m.Stored())
}

func TestSyncSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	m, r := clitest.Start(t), newRepository(t)
	r.commit("Begin", "README.md", "nothing")
	for text, args := range map[string][]string{
		"--drift mend: there is report and revert":        {r.folder, "--drift", "mend"},
		"--dry-run tells of one commit: say --once":       {r.folder, "--dry-run"},
		"--path ../x: it has to lie within":               {r.folder, "--path", "../x"},
		"a second is the shortest":                        {r.folder, "--interval", "1ms"},
		"fetch HEAD of /nowhere/at/all":                   {"/nowhere/at/all", "--once"},
		"fetch nothing of ":                               {r.folder, "--branch", "nothing", "--once"},
		"there is no file in it that ends in":             {r.folder, "--once"},
		"--prune-namespace and --prune-kind say":          {r.folder, "--prune-namespace", "shop"},
		"fetch HEAD of https://ann:xxxxx@127.0.0.1:1/a: ": {"https://ann:hunter2@127.0.0.1:1/a", "--once"},
		"--allowed-signers: stat /nowhere":                {r.folder, "--allowed-signers", "/nowhere", "--once"},
	} {
		got := m.Run(append([]string{"sync"}, args...)...)
		require.NotZero(t, got.Code, args)
		require.Contains(t, got.Err, text)
		require.NotContains(t, got.Err, "hunter2")
		require.NotContains(t, got.Err, "pgmesh-sync-")
	}
}

// running is a sync that goes on.
type running struct {
	t       *testing.T
	address string

	mu   sync.Mutex
	said strings.Builder
}

// Write implements io.Writer.
func (s *running) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(text)
}

func (s *running) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

func start(t *testing.T, m *clitest.Mesh, folder string, more ...string) *running {
	t.Helper()
	s := &running{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() {
		program := cli.Program{In: strings.NewReader(""), Out: s, Err: s, Getenv: func(string) string { return "" }}
		code <- program.Run(ctx, append([]string{"sync", folder, "--interval", "1s", "--http", "127.0.0.1:0", "--server", m.Address, "--insecure"}, more...))
	}()
	t.Cleanup(func() {
		cancel()
		require.Equal(t, 130, <-code)
	})
	s.says("pages for monitoring: http://")
	s.address = pages.FindStringSubmatch(s.text())[1]
	return s
}

var pages = regexp.MustCompile(`http://(\S+)/readyz`)

// says waits until it has said all of some words.
func (s *running) says(words ...string) {
	s.t.Helper()
	poll.Eventually(s.t, func(context.Context) error {
		for _, word := range words {
			if !strings.Contains(s.text(), word) {
				return fmt.Errorf("it has not said %q, but %q", word, s.text())
			}
		}
		return nil
	})
}

func (s *running) page(path string) (status int, text string) {
	s.t.Helper()
	answer, err := http.Get("http://" + s.address + path)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return answer.StatusCode, string(body)
}

// unready waits until it says that the mesh is not as the repository has it.
func (s *running) unready(why string) {
	s.t.Helper()
	poll.Eventually(s.t, func(context.Context) error {
		if status, text := s.page("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, why) {
			return fmt.Errorf("answered %d: %s", status, text)
		}
		return nil
	})
}

// ready waits until it says that a commit is in the mesh.
func (s *running) ready(id string) {
	s.t.Helper()
	poll.Eventually(s.t, func(context.Context) error {
		if status, text := s.page("/readyz"); status != http.StatusOK || !strings.Contains(text, "commit "+id) {
			return fmt.Errorf("answered %d: %s", status, text)
		}
		return nil
	})
	require.Contains(s.t, s.metrics(), `pgmesh_sync_commit_info{commit="`+id+`"} 1`)
}

func (s *running) metrics() string {
	s.t.Helper()
	_, text := s.page("/metrics")
	return text
}

var lastSuccess = regexp.MustCompile(`(?m)^pgmesh_sync_last_success_timestamp_seconds .*$`)

// passes waits until it has looked twice: the first look may have begun before.
func (s *running) passes() {
	s.t.Helper()
	for range 2 {
		before := lastSuccess.FindString(s.metrics())
		poll.Eventually(s.t, func(context.Context) error {
			if lastSuccess.FindString(s.metrics()) == before {
				return errors.New("it has not looked again")
			}
			return nil
		})
	}
}
