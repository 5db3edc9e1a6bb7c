// Package gitrepo reads the newest commit of a git repository, by the git of this machine: it knows how
// its users prove who they are.
package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Repository is a repository of which one branch is read.
type Repository struct {
	URL string
	// Ref is a branch or a tag; the repository's own choice if it is empty.
	Ref string
	// Folder is a folder of its own, which nobody else may write to.
	Folder string
	// Signers is a file of those who may sign commits, as ssh-keygen has it. If it is not empty, a commit
	// that none of them has signed is refused.
	Signers string
}

// Commit is what a branch stood at.
type Commit struct {
	ID      string
	Author  string
	Subject string
	Time    time.Time
}

// Short is the id as people write it.
func (c *Commit) Short() string { return c.ID[:min(len(c.ID), 12)] }

// fetchTimeout bounds how long a repository may take to answer.
const fetchTimeout = 5 * time.Minute

// Fetch reads the newest commit, and checks it out if it is signed as it has to be.
func (r *Repository) Fetch(ctx context.Context) (*Commit, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := os.MkdirAll(r.Tree(), 0o700); err != nil {
		return nil, err
	}
	if _, err := r.git(ctx, "init", "--quiet"); err != nil {
		return nil, err
	}
	ref := r.Ref
	if ref == "" {
		ref = "HEAD"
	}
	if _, err := r.git(ctx, "fetch", "--quiet", "--depth=1", "--no-tags", "--force", "--", r.URL, ref); err != nil {
		return nil, fmt.Errorf("fetch %s of %s: %w", ref, r.Name(), err)
	}
	said, err := r.git(ctx, "log", "-1", "--format=%H%x00%an <%ae>%x00%s%x00%cI", "FETCH_HEAD")
	if err != nil {
		return nil, err
	}
	commit, err := parse(said)
	if err != nil {
		return nil, err
	}
	if err := r.verify(ctx, commit); err != nil {
		return nil, err
	}
	if _, err := r.git(ctx, "checkout", "--quiet", "--force", "--detach", commit.ID); err != nil {
		return nil, err
	}
	_, err = r.git(ctx, "clean", "-ffdx", "--quiet")
	return commit, err
}

func parse(said string) (*Commit, error) {
	fields := strings.Split(strings.TrimSpace(said), "\x00")
	if len(fields) != 4 {
		return nil, fmt.Errorf("git tells of a commit in words that are not understood: %q", said)
	}
	at, err := time.Parse(time.RFC3339, fields[3])
	return &Commit{ID: fields[0], Author: fields[1], Subject: fields[2], Time: at}, err
}

// verify refuses a commit that nobody has signed who may.
func (r *Repository) verify(ctx context.Context, c *Commit) error {
	if r.Signers == "" {
		return nil
	}
	if _, err := r.git(ctx, "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+r.Signers, "verify-commit", c.ID); err != nil {
		return fmt.Errorf("the commit %s %q of %s is not signed by anybody in %s: %w", c.Short(), c.Subject, c.Author, r.Signers, err)
	}
	return nil
}

// Tree is the folder with the files of the newest commit. What git keeps is elsewhere.
func (r *Repository) Tree() string { return filepath.Join(r.Folder, "tree") }

// Name is the URL without a password.
func (r *Repository) Name() string {
	if u, err := url.Parse(r.URL); err == nil {
		return u.Redacted()
	}
	return r.URL
}

// settings keep what a repository says from doing more than being files: no links that lead out of it, no
// hooks, no modules of others, and no program that is named by a URL.
var settings = []string{
	"-c", "core.symlinks=false", "-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false", "-c", "protocol.ext.allow=never",
	"-c", "advice.detachedHead=false", "-c", "init.defaultBranch=main",
}

// git runs a command in the folder, and returns what it printed.
func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	var out, said bytes.Buffer
	// The arguments are ours, and a URL comes after --. Git looks for keys and helpers by what is in the environment.
	cmd := exec.CommandContext(ctx, "git", append(settings, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Tree(), &out, &said
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(r.Folder, "git"), "GIT_WORK_TREE="+r.Tree(), "GIT_TERMINAL_PROMPT=0", "GIT_LFS_SKIP_SMUDGE=1", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("there is no git on this machine, which reads the repository: install it")
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	case err != nil:
		return "", r.explain(said.String(), err)
	}
	return out.String(), nil
}

// explain says in one line why git failed, without the password of the URL.
func (r *Repository) explain(said string, err error) error {
	if u, wrong := url.Parse(r.URL); wrong == nil && u.User != nil {
		if password, has := u.User.Password(); has {
			said = strings.ReplaceAll(said, password, "xxxxx")
		}
	}
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "warning:") {
			return errors.New(strings.TrimPrefix(line, "fatal: "))
		}
	}
	return err
}
