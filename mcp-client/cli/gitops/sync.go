// Package gitops keeps a mesh as a git repository has it: each commit becomes one revision.
package gitops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/gitrepo"
)

// What becomes of drift.
const (
	report = "report"
	revert = "revert"
)

// syncing is one run of the command.
type syncing struct {
	change.Options
	*session.Session

	repository gitrepo.Repository
	paths      []string
	pruning    change.Pruning
	interval   time.Duration
	once       bool
	strict     bool
	drift      string
	http       string
}

// Sync returns the command sync.
func Sync(s *session.Session) *cobra.Command {
	y := &syncing{Session: s}
	cmd := &cobra.Command{
		Use:   "sync REPOSITORY",
		Short: "Keep a mesh as a git repository has it",
		Long: `Keep a mesh as a branch of a git repository has it, until interrupted. Each new commit becomes one revision, or, if something in it is not
valid, none: then what is wrong is told, and the mesh stays as it is until a commit that is right. The message of the revision is the
commit's, with its id and its author.

REPOSITORY is anything that git fetches from: a URL, user@host:path or a folder. The git of this machine reads it, with its keys and
credential helpers. With --allowed-signers, commits count that one of the keys in the file has signed, and no others.

With --strict a commit is refused, too, that would cause a problem between resources, such as a route to a host that there is not, or that has
documents of kinds that have nothing to do with a mesh.

What somebody changes in the mesh beside the repository is drift. It is told of, with the fields that differ; with --drift revert, it is changed
back. A sync that starts sees in the history of the mesh whether the newest commit is its last one, and then brings it no second time. What is
not in the repository is left alone, but for --prune. What machines have registered, and what registries bring, is never touched.

With --once it ends when the newest commit is in the mesh. If it was there already it looks for drift, and exits with code 1 if there is some.
With --once --dry-run it tells what a commit would change, or what has drifted, and exits with code 1 if there is something.`,
		Example: `  mcp-client sync https://git.example.com/mesh.git --path production --prune --prune-namespace shop
  mcp-client sync git@git.example.com:mesh.git --once --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			y.repository.URL = args[0]
			return y.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&y.repository.Ref, "branch", "", "the branch or tag (default: the one that the repository names)")
	f.StringArrayVar(&y.paths, "path", []string{"."}, "a file or folder in the repository, with its folders; may be given more than once")
	f.StringVar(&y.repository.Signers, "allowed-signers", "", "file of the keys that may sign commits, as ssh-keygen has it (ALLOWED SIGNERS); others are refused")
	f.DurationVar(&y.interval, "interval", 30*time.Second, "how often to look for a commit, and for drift")
	f.StringVar(&y.drift, "drift", report, "what becomes of what somebody has changed in the mesh: report, or revert")
	f.BoolVar(&y.once, "once", false, "end when the newest commit is in the mesh")
	f.BoolVar(&y.strict, "strict", false, "refuse a commit that would cause a problem (mcp-client problems), or has documents of kinds that have nothing to do with a mesh")
	change.DryRunFlag(f, &y.DryRun, "with --once: change nothing, and tell what would change")
	f.StringVar(&y.http, "http", "", "address to serve /healthz, /readyz and /metrics on, such as 127.0.0.1:15024 (default: none)")
	y.pruning.DeclareFlags(cmd)
	y.DeclareWait(cmd)
	_ = cmd.RegisterFlagCompletionFunc("drift", cobra.FixedCompletions([]cobra.Completion{report, revert}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// shortest is how often a repository may be asked.
const shortest = time.Second

// check refuses what cannot be meant.
func (y *syncing) check() error {
	switch {
	case y.drift != report && y.drift != revert:
		return fmt.Errorf("--drift %s: there is report and revert", y.drift)
	case y.DryRun && !y.once:
		return errors.New("--dry-run tells of one commit: say --once, too")
	case y.interval < shortest:
		return fmt.Errorf("--interval %s: a second is the shortest", y.interval)
	case y.once && y.http != "":
		return errors.New("--http is for a sync that goes on, and --once ends")
	}
	for _, path := range y.paths {
		if !filepath.IsLocal(path) {
			return fmt.Errorf("--path %s: it has to lie within the repository", path)
		}
	}
	return nil
}

func (y *syncing) run(cmd *cobra.Command) error {
	if err := y.check(); err != nil {
		return failure.Usage(cmd, err)
	}
	prune, err := y.pruning.Checked(cmd, y.DryRun)
	if err != nil {
		return err
	}
	if err := y.locate(); err != nil {
		return err
	}
	if y.repository.Folder, err = os.MkdirTemp("", "pgmesh-sync-"); err != nil {
		return err
	}
	defer os.RemoveAll(y.repository.Folder)
	k := &keeper{syncing: y, prune: prune, shown: newShown()}
	if y.once {
		return k.once(cmd.Context())
	}
	stop, err := k.shown.serve(cmd.Context(), y.http, y.Err)
	if err != nil {
		return err
	}
	defer stop()
	return k.forever(cmd.Context())
}

// locate makes paths absolute, since git runs in a folder of its own.
func (y *syncing) locate() (err error) {
	if _, local := os.Stat(y.repository.URL); local == nil {
		if y.repository.URL, err = filepath.Abs(y.repository.URL); err != nil {
			return err
		}
	}
	if y.repository.Signers == "" {
		return nil
	}
	if _, err := os.Stat(y.repository.Signers); err != nil {
		return fmt.Errorf("--allowed-signers: %w", err)
	}
	y.repository.Signers, err = filepath.Abs(y.repository.Signers)
	return err
}
