package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
)

// markedByCommit looks whether programs say of which commit they are. Two builds differ if Go recorded
// the commit in one of them alone.
func (r *release) markedByCommit(context.Context) error {
	for _, arch := range r.arches {
		for _, program := range append([]string{"demo", "ready"}, programs...) {
			marked, err := marks(r.binary(program, arch), r.commit, r.modified)
			if err != nil {
				return err
			}
			if !marked && r.key != "" {
				return fmt.Errorf("%s for %s does not say that it is of commit %s unchanged, and what is signed by --key has to: "+
					"make the release in a clone, since Go records no commit in a worktree of git, and let --site be a folder outside or one that git ignores", program, arch, r.commit)
			}
			r.unmarked = r.unmarked || !marked
		}
	}
	return nil
}

// marks tells whether Go recorded a commit in a program, and whether files differed from it.
func marks(file, commit string, modified bool) (bool, error) {
	made, err := buildinfo.ReadFile(file)
	if err != nil {
		return false, err
	}
	for _, s := range []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: strconv.FormatBool(modified)}} {
		if !slices.Contains(made.Settings, s) {
			return false, nil
		}
	}
	return true, nil
}
