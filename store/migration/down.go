package migration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migrations"
)

// Loss is what goes with a table that a way down drops.
type Loss struct {
	Table   string
	Rows    int64
	Version int64 // the version that made the table
}

func (l Loss) String() string {
	if l.Rows == 1 {
		return fmt.Sprintf("%s, with 1 row (version %d)", l.Table, l.Version)
	}
	return fmt.Sprintf("%s, with %d rows (version %d)", l.Table, l.Rows, l.Version)
}

// LossError says that a way down was not taken, because of what would be lost on it.
type LossError struct {
	Version int64
	Lost    []Loss
	Added   []string
}

func (e *LossError) Error() string {
	var drops []string
	if len(e.Lost) > 0 {
		tables := make([]string, len(e.Lost))
		for i, l := range e.Lost {
			tables[i] = l.String()
		}
		drops = append(drops, "tables that have rows: "+strings.Join(tables, "; "))
	}
	if len(e.Added) > 0 {
		drops = append(drops, "what others have added to the schemas: "+strings.Join(e.Added, ", "))
	}
	return fmt.Sprintf("going down to version %d drops %s", e.Version, strings.Join(drops, "; and "))
}

// Down brings the schema back to a version, for an older program, whatever is lost by that. Nothing can be
// written until that program has migrated. 0 removes the schema with everything in it. It reports, a line
// at a time, what it does and whom it waits for. What others built on the schema it does not drop, and
// returns a BuiltOnError.
func Down(ctx context.Context, url string, version int64, tell func(string)) error {
	return down(ctx, url, version, true, tell)
}

// DownWithoutLoss is Down that does nothing, and returns a LossError, if a table would be dropped that has
// rows which no program writes anew, or something that others have added.
func DownWithoutLoss(ctx context.Context, url string, version int64, tell func(string)) error {
	return down(ctx, url, version, false, tell)
}

func down(ctx context.Context, url string, version int64, lossy bool, tell func(string)) error {
	return withMigrationLock(ctx, url, tell, func(ctx context.Context, conn *pgx.Conn, provider *goose.Provider) error {
		way, err := planDown(ctx, conn, version)
		switch {
		case err != nil:
			return err
		case len(way.BuiltOn) > 0:
			return &BuiltOnError{version, way.BuiltOn}
		case !lossy && way.Loses():
			return &LossError{version, way.Lost, way.Added}
		}
		return retryLocked(ctx, conn, tell, func() error { return migrateDown(ctx, conn, provider, version, tell) })
	})
}

// allowDown refuses versions that there are not, or that are not below what the schema has.
func allowDown(have, newest, version int64) error {
	known, err := knownMigrations()
	switch {
	case err != nil:
		return err
	case have > newest:
		return store.Fits(have, have, newest)
	case version != 0 && !slices.ContainsFunc(known.Migrations, func(m Step) bool { return m.Version == version }):
		return fmt.Errorf("there is no version %d of the schema: this program knows %s, which mcp-server migrate status lists, and 0 removes the schema", version, ranges(known.Migrations))
	case version >= have:
		return fmt.Errorf("the schema has version %d, from which there is no way down to %d", have, version)
	}
	return nil
}

// ranges names the versions of steps; some numbers were never used.
func ranges(steps []Step) string {
	var said []string
	for begin := 0; begin < len(steps); {
		end := begin
		for end+1 < len(steps) && steps[end+1].Version == steps[end].Version+1 {
			end++
		}
		if begin == end {
			said = append(said, fmt.Sprint(steps[begin].Version))
		} else {
			said = append(said, fmt.Sprintf("%d to %d", steps[begin].Version, steps[end].Version))
		}
		begin = end + 1
	}
	return strings.Join(said, ", ")
}

// Way is a way down.
type Way struct {
	Steps   []Step // that it takes back, the newest first
	Lost    []Loss
	Added   []string // what others have added to the schemas, and goes with the functions and views
	BuiltOn []string // what others built on what goes, and is in the way
}

// Loses reports whether something is lost on the way that nobody has again.
func (w Way) Loses() bool { return len(w.Lost)+len(w.Added) > 0 }

// PlanDown tells what Down would do. It changes nothing.
func PlanDown(ctx context.Context, url string, version int64) (Way, error) {
	conn, err := connectToMigrate(ctx, url, func(string) {})
	if err != nil {
		return Way{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := requireOwner(ctx, conn); err != nil {
		return Way{}, err
	}
	return planDown(ctx, conn, version)
}

func planDown(ctx context.Context, conn *pgx.Conn, version int64) (w Way, err error) {
	status, err := readStatus(ctx, conn)
	if err != nil {
		return w, explain("reading the version of the schema", err)
	}
	if err := allowDown(status.Newest, status.known(), version); err != nil {
		return w, err
	}
	for _, m := range slices.Backward(status.Migrations) {
		if m.Version > version && !m.Applied.IsZero() {
			w.Steps = append(w.Steps, m)
		}
	}
	w.Added = addedToCode(status.Changed)
	if w.BuiltOn, err = builtOn(ctx, conn, status, version); err != nil {
		return w, explain("looking what others built on the schema", err)
	}
	w.Lost, err = lostBelow(ctx, conn, version)
	return w, err
}

// lostBelow returns the tables with rows that the steps above a version drop on their way down, the newest
// first.
func lostBelow(ctx context.Context, conn *pgx.Conn, version int64) (lost []Loss, err error) {
	known, err := knownMigrations()
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(known.Migrations) {
		if m.Version <= version {
			break
		}
		dropped, _, err := droppedBy(m)
		if err != nil {
			return nil, err
		}
		for _, name := range dropped {
			if slices.Contains(writtenAnew, name) {
				continue
			}
			l, err := lossOf(ctx, conn, name)
			if err != nil {
				return nil, explain("counting what would be lost", err)
			}
			l.Version = m.Version
			if l.Rows > 0 {
				lost = append(lost, l)
			}
		}
	}
	return lost, nil
}

// droppedBy returns the tables that a step drops on its way down, and the columns, as table.column. They are
// without their schemas, in which they have not always been.
func droppedBy(m Step) (tables, columns []string, err error) {
	text, err := migrations.Files.ReadFile(m.Name)
	if err != nil {
		return nil, nil, err
	}
	_, back, _ := strings.Cut(string(text), "-- +goose Down\n")
	for _, match := range dropsTable.FindAllStringSubmatch(back, -1) {
		tables = append(tables, match[1])
	}
	for _, match := range altersTable.FindAllStringSubmatch(back, -1) {
		for _, column := range dropsColumn.FindAllStringSubmatch(match[2], -1) {
			columns = append(columns, match[1]+"."+column[1])
		}
	}
	return tables, columns, nil
}

var (
	dropsTable  = regexp.MustCompile(`(?m)^DROP TABLE (?:IF EXISTS )?mesh(?:_internal)?\.(\w+)`)
	altersTable = regexp.MustCompile(`(?m)^ALTER TABLE mesh(?:_internal)?\.(\w+)([^;]*);`)
	dropsColumn = regexp.MustCompile(`\bDROP COLUMN (\w+)`)
)

// writtenAnew are the tables whose rows are of no use without the programs that wrote them, which write
// them again: what the code is made of, what servers tell each other, and what proxies and registries
// report.
var writtenAnew = []string{
	"installation", "installed_objects", "kinds", "schema_members", "schema_types", "schema_fields", "schema_parts", "rules", "formats", "unsupported",
	"editable_views", "editable_columns", "part_edits", "links", "findings", "numbering", "written",
	"trust_names", "trust_readings", "control_plane_names", "sink_holders", "sink_attempts", "workload_clock", "workload_group_locks",
	"reports", "report_keepers", "reported_proxies", "report_times", "report_problems", "report_audiences", "report_rollouts", "report_versions", "report_statuses",
	"registries", "registry_entries", "registry_workloads", "registry_links",
}

// lossOf counts the rows of a table, if there is one.
func lossOf(ctx context.Context, conn *pgx.Conn, name string) (l Loss, err error) {
	if err := conn.QueryRow(ctx, sql.TableNamed, name).Scan(&l.Table); err != nil || l.Table == "" {
		return l, err
	}
	return l, conn.QueryRow(ctx, "SELECT count(*) FROM "+l.Table).Scan(&l.Rows)
}
