package gitops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/gitrepo"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// A sync that begins learns from the history what it did before, for it keeps nothing on its disk: its revisions name the
// commit, and what of it they are.

// messageOf is the message of a commit's revision.
func (k *keeper) messageOf(c *gitrepo.Commit) string {
	return c.Subject + " " + k.signature(c)
}

// signature ends the message of a commit's revision. By it, a later sync knows that the commit is live.
func (k *keeper) signature(c *gitrepo.Commit) string {
	return fmt.Sprintf("(commit %s by %s%s", c.ID, c.Author, k.mark())
}

// mark ends the messages of this sync, for several may keep parts of one mesh. The repository is told by its name alone: runners
// of CI have the same one in ever new folders.
func (k *keeper) mark() string {
	url := strings.ReplaceAll(filepath.ToSlash(k.repository.Name()), ":", "/")
	name := strings.TrimSuffix(path.Base(url), ".git")
	if k.repository.Ref != "" {
		name += "@" + k.repository.Ref
	}
	return fmt.Sprintf("; %s of %s, run %s)", strings.Join(k.paths, " "), name, k.manner())
}

// mannerChars is how much of a digest tells manners apart.
const mannerChars = 8

// manner is a digest of the flags that decide what files make of a mesh. After a change of these flags, sync applies the commit again.
func (k *keeper) manner() string {
	pruned, err := proto.MarshalOptions{Deterministic: true}.Marshal(k.prune)
	if err != nil {
		return "unknown" // never: it has strings alone, and those of flags are checked
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %t %q", k.Namespace.Name, k.prune != nil, pruned))
	return hex.EncodeToString(sum[:])[:mannerChars]
}

// isLive reports whether the last commit that this sync has made a revision of, in this run or one before, is this one.
func (k *keeper) isLive(ctx context.Context, c *gitrepo.Commit) (bool, error) {
	if k.applied != "" {
		return k.applied == c.ID, nil
	}
	last, err := k.lastMessage(ctx)
	if failure.IsNotTold(err) {
		return false, nil
	}
	return strings.HasSuffix(last, k.signature(c)), err
}

// lastMessage is that of the newest revision which this caller has made so; "" if there is none. Others may write such messages, too,
// but where callers prove who they are, only under their own names.
func (k *keeper) lastMessage(ctx context.Context) (string, error) {
	is, err := k.Caller(ctx)
	if err != nil {
		return "", err
	}
	req := &adminv1.HistoryRequest{PageSize: 1, Message: k.mark()}
	if who := is.Identity(); who != caller.Local && who != caller.Anonymous {
		req.Author = is.Author()
	}
	for {
		answer, err := session.Ask(ctx, k.Session, adminv1.AdminServiceClient.History, req)
		if err != nil {
			return "", err
		}
		for _, r := range answer.GetRevisions() {
			if strings.HasSuffix(r.GetMessage(), k.mark()) {
				return r.GetMessage(), nil
			}
		}
		if req.PageToken = answer.GetNextPageToken(); req.PageToken == "" {
			return "", nil
		}
	}
}
