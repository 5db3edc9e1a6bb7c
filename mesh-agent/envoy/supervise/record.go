package supervise

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
)

// recordFile lists the running Envoys, the newest last.
const recordFile = "running.json"

// writeRecords records which Envoys run. Failing is an error, because the next agent would start
// another Envoy beside them.
func (s *Supervisor) writeRecords(records ...record) error {
	content, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	s.removeBootstraps(records)
	return replace.File(filepath.Join(s.Folder, recordFile), append(content, '\n'))
}

// removeBootstraps removes the bootstrap files of all but these records, whose Envoys may have to
// be started again.
func (s *Supervisor) removeBootstraps(except []record) {
	files, _ := filepath.Glob(s.bootstrapFile(record{ConfigHash: "????????????"})) // the pattern is valid
	for _, file := range files {
		if !slices.ContainsFunc(except, func(r record) bool { return s.bootstrapFile(r) == file }) {
			_ = os.Remove(file)
		}
	}
}

func recordsOf(instances []*instance) []record {
	records := make([]record, len(instances))
	for i, l := range instances {
		records[i] = l.record
	}
	return records
}

// reattachAll returns the running Envoys of an earlier agent.
func (s *Supervisor) reattachAll() (instances []*instance) {
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
	var ended []record
	for _, r := range records {
		l, err := reattach(r, admin(filepath.Join(s.ownFolder(), adminFile)))
		if err != nil {
			s.Log.Info("the Envoy of an earlier agent has ended", "pid", r.Pid, "known", err)
			ended = append(ended, r)
			continue
		}
		instances = append(instances, l)
	}
	for _, r := range ended {
		releaseBaseID(r.BaseID, instances)
	}
	return instances
}

// releaseBaseID removes the shared memory of a base ID that no instance uses.
func releaseBaseID(id uint32, instances []*instance) {
	if !slices.ContainsFunc(instances, func(l *instance) bool { return l.BaseID == id }) {
		removeSharedMemory(id)
	}
}
