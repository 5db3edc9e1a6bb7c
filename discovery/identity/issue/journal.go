package issue

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"

	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// journalFile is the journal in discovery's folder, with one record a line.
const journalFile = "records.jsonl"

// journal keeps records on disk, however discovery ends, until mcp-server has taken them. What is
// written survives the program at once; a machine that crashes may lose the last seconds. A nil
// journal keeps nothing.
type journal struct {
	path  string
	file  *os.File
	lines int
}

// openJournal opens a folder's journal, and returns the records left in it. It skips lines that
// cannot be read: the last one may be torn.
func openJournal(folder string) (*journal, []*identityv1.Issue, error) {
	if folder == "" {
		return nil, nil, nil
	}
	j := &journal{path: filepath.Join(folder, journalFile)}
	text, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	var left []*identityv1.Issue
	for line := range bytes.Lines(text) {
		record := &identityv1.Issue{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(line, record) == nil && len(record.GetId()) > 0 {
			left = append(left, record)
		}
	}
	left = left[max(0, len(left)-mostRecords):]
	return j, left, j.keep(left)
}

// add appends a record.
func (j *journal) add(record *identityv1.Issue) error {
	if j == nil {
		return nil
	}
	line, err := protojson.Marshal(record)
	if err != nil {
		return err
	}
	j.lines++
	_, err = j.file.Write(append(line, '\n'))
	return err
}

// keep replaces all records by these.
func (j *journal) keep(records []*identityv1.Issue) error {
	if j == nil {
		return nil
	}
	if len(records) == 0 && j.file != nil {
		j.lines = 0
		return j.file.Truncate(0)
	}
	next, err := os.OpenFile(j.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	var text []byte
	for _, record := range records {
		line, err := protojson.Marshal(record)
		if err != nil {
			return errors.Join(err, next.Close())
		}
		text = append(append(text, line...), '\n')
	}
	if _, err = next.Write(text); err == nil {
		err = os.Rename(next.Name(), j.path)
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	j.close()
	j.file, j.lines = next, len(records)
	return nil
}

// outgrown reports whether the file has more records than can be waiting.
func (j *journal) outgrown() bool { return j != nil && j.lines >= 2*mostRecords }

func (j *journal) close() {
	if j != nil && j.file != nil {
		_ = j.file.Close() // what was written is with the system already
	}
}
