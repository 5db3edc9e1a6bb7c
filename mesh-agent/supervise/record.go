package supervise

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pgmesh/pgmesh/internal/replace"
)

// recordFile has the Envoys that run, the newest last.
const recordFile = "running.json"

// note writes down which Envoys run. Without that the next agent would start another beside them, so it is an error.
func (s *Supervisor) note(records ...record) error {
	content, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	s.forgetBootstraps(records)
	return replace.File(filepath.Join(s.Folder, recordFile), append(content, '\n'))
}

// forgetBootstraps removes those that no Envoy was started with which may have to be started again.
func (s *Supervisor) forgetBootstraps(except []record) {
	files, _ := filepath.Glob(s.bootstrapFile(record{Wanted: "????????????"})) // the pattern is a good one
	for _, file := range files {
		if !slices.ContainsFunc(except, func(r record) bool { return s.bootstrapFile(r) == file }) {
			_ = os.Remove(file)
		}
	}
}

func recordsOf(lives []*life) []record {
	records := make([]record, len(lives))
	for i, l := range lives {
		records[i] = l.record
	}
	return records
}

// recall finds the Envoys of an agent before this one that live still.
func (s *Supervisor) recall() (lives []*life) {
	content, err := os.ReadFile(filepath.Join(s.Folder, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var records []record
	if err == nil {
		err = json.Unmarshal(content, &records)
	}
	if err != nil {
		s.Log.Error("it cannot be told whether an Envoy of an earlier agent runs still", "error", err)
		return nil
	}
	var over []record
	for _, r := range records {
		l, err := again(r, admin(filepath.Join(s.ownFolder(), adminFile)))
		if err != nil {
			s.Log.Info("the Envoy of an earlier agent has ended", "pid", r.Pid, "known", err)
			over = append(over, r)
			continue
		}
		lives = append(lives, l)
	}
	for _, r := range over {
		forgetUnless(r.BaseID, lives)
	}
	return lives
}

// forgetUnless gives a base id back that no life has.
func forgetUnless(id uint32, lives []*life) {
	if !slices.ContainsFunc(lives, func(l *life) bool { return l.BaseID == id }) {
		forgetBaseID(id)
	}
}
