package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migration"
)

const migrateHelp = `Bring the database's schema to a version, or tell which it has.

The role of the database URL must own the schema, or be allowed to create it in the database; it needs no more. Programs that
migrate the same database wait for each other. The mesh may be used meanwhile, also by older servers: what is asked of it waits for
the moments in which the schema changes, and a migration that finds the tables in use lets others go first and tries again.`

// The exit codes of status and of a dry run: exitBehind if up has something to do, and exitChanged of
// status if somebody has changed what up leaves alone.
const (
	exitBehind  = 3
	exitChanged = 4
)

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database's schema to a version, or tell which it has", Long: migrateHelp}
	var database string
	for _, c := range []*cobra.Command{upCommand(&database), downCommand(&database), statusCommand(&database)} {
		needDatabase(c, &database)
		cmd.AddCommand(c)
	}
	cmd.AddCommand(scriptCommand())
	return cmd
}

func upCommand(database *string) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "up", Short: "Bring the schema to the newest version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dryRun {
				code, err := printStatus(cmd, *database, printPlan)
				if code == exitChanged { // with which up has nothing to do
					code = 0
				}
				return exitAs(code, err)
			}
			said := false
			tell := func(line string) {
				said = true
				lines(cmd)(line)
			}
			err := migration.UpTelling(cmd.Context(), *database, tell)
			if err != nil || said {
				return err
			}
			_, err = printStatus(cmd, *database, printPlan)
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, fmt.Sprintf("tell what there is to do, and do nothing; the exit code is %d if there is something", exitBehind))
	return cmd
}

const downHelp = `Bring the schema back to a version, for an older program; 0 removes it, with everything in it.

Nothing can be written until that program has migrated. A way down that would drop tables with rows, such as tokens or secrets, or
what others have added to the schemas, is refused and tells of it, unless --drop-data is given. What programs write anew does not
count. What others built on the mesh from outside, such as a view, is to be dropped first.`

func downCommand(database *string) *cobra.Command {
	var dryRun, dropData bool
	cmd := &cobra.Command{
		Use: "down VERSION", Short: "Bring the schema back to a version; 0 removes it, with everything in it", Long: downHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("give the version to go back to, the newest that the older program knows: its migrate status lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := strconv.ParseInt(args[0], 10, 64)
			switch {
			case err != nil || version < 0:
				return fmt.Errorf("%q is not a version: mcp-server migrate status lists them", args[0])
			case dryRun:
				return printWayDown(cmd, *database, version)
			case dropData:
				return migration.Down(cmd.Context(), *database, version, lines(cmd))
			}
			err = migration.DownWithoutLoss(cmd.Context(), *database, version, lines(cmd))
			if lossy, ok := errors.AsType[*migration.LossError](err); ok {
				return fmt.Errorf("%w. Export or dump what you need, and give --drop-data", lossy)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, fmt.Sprintf("tell what there is to do, what is lost and what is in the way, and do nothing; the exit code is %d if something is", exitBehind))
	cmd.Flags().BoolVar(&dropData, "drop-data", false, "drop tables that have rows, and what others have added, too")
	return cmd
}

// printWayDown prints what down would do, what would be lost, and what is in the way.
func printWayDown(cmd *cobra.Command, database string, version int64) error {
	way, err := migration.PlanDown(cmd.Context(), database, version)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	for _, m := range way.Steps {
		fmt.Fprintf(out, "to do: take back version %d (%s)\n", m.Version, m.Name)
	}
	for _, l := range way.Lost {
		fmt.Fprintf(out, "lost: %s\n", l)
	}
	for _, object := range way.Added {
		fmt.Fprintf(out, "lost: %s, which others have added\n", object)
	}
	for _, built := range way.BuiltOn {
		fmt.Fprintln(out, store.DropFirst+built)
	}
	if way.Loses() || len(way.BuiltOn) > 0 {
		return exitAs(exitBehind, nil)
	}
	return nil
}

func statusCommand(database *string) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "List the versions, when each came into force, and what others have changed in the schema", Long: statusHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			code, err := printStatus(cmd, *database, printVersions)
			return exitAs(code, err)
		},
	}
}

var statusHelp = fmt.Sprintf(`List the versions, when each came into force, and what others have changed in the schema.

The exit code is %d if up has something to do, and %d if somebody has changed what up leaves alone. Of changes the owner of the schema
and servers are told, with what to do about each (mesh.check_installation).`, exitBehind, exitChanged)

func scriptCommand() *cobra.Command {
	var from int64
	cmd := &cobra.Command{
		Use: "sql", Short: "Print what up does as a script for psql, for databases in which programs may not change tables", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return migration.WriteScript(cmd.OutOrStdout(), from)
		},
	}
	cmd.Flags().Int64Var(&from, "from", 0, "the version that the schema has, which mcp-server migrate status tells; 0 if there is none")
	return cmd
}

func lines(cmd *cobra.Command) func(string) {
	return func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) }
}

// printStatus prints the status, and returns the exit code for it.
func printStatus(cmd *cobra.Command, database string, in func(io.Writer, migration.Status) error) (code int, err error) {
	status, err := migration.ReadStatus(cmd.Context(), database)
	if err != nil {
		return 0, err
	}
	anew, left := status.Remakes()
	switch {
	case !status.Fits(), len(anew) > 0:
		code = exitBehind
	case len(left) > 0:
		code = exitChanged
	}
	return code, in(cmd.OutOrStdout(), status)
}

// exitAs ends the program with a code, without a message.
func exitAs(code int, err error) error {
	if err != nil || code == 0 {
		return err
	}
	return program.Exit(code)
}

func printVersions(out io.Writer, s migration.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tNAME\tAPPLIED")
	for _, m := range s.Migrations {
		applied := "no"
		if !m.Applied.IsZero() {
			applied = m.Applied.Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", m.Version, m.Name, applied)
	}
	return cmp.Or(w.Flush(), printPlan(out, s))
}

// printPlan prints what up would do, and what others have changed that it leaves to people.
func printPlan(out io.Writer, s migration.Status) error {
	if s.TooNew() {
		_, err := fmt.Fprintf(out, "the schema has version %d, of a newer program: this one leaves it alone\n", s.Newest)
		return err
	}
	anew, left := s.Remakes()
	for _, d := range left {
		fmt.Fprintf(out, "changed by others: %s %s %s: %s\n", d.Kind, d.Name, d.Difference, d.Advice)
	}
	switch {
	case s.Fits() && len(s.Changed) == 0:
		_, err := fmt.Fprintln(out, "the schema is up to date")
		return err
	case s.Fits() && len(anew) == 0:
		_, err := fmt.Fprintln(out, "mcp-server migrate up has nothing to do")
		return err
	}
	printSteps(out, s)
	for _, d := range anew {
		fmt.Fprintf(out, "to do: make anew: %s %s %s\n", d.Kind, d.Name, d.Difference)
	}
	_, err := fmt.Fprintln(out, "mcp-server migrate up does it")
	return err
}

func printSteps(out io.Writer, s migration.Status) {
	for _, m := range s.Migrations {
		if m.Applied.IsZero() {
			fmt.Fprintf(out, "to do: migrate to version %d (%s)\n", m.Version, m.Name)
		}
	}
	if !s.Code {
		fmt.Fprintln(out, "to do: install the functions, views and triggers of this program")
	}
	if !s.Registry {
		fmt.Fprintln(out, "to do: write the kinds and rules of this program")
	}
}
