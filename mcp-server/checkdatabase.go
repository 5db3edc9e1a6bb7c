package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/sharing"
)

func checkDatabaseCommand() *cobra.Command {
	var database, output string
	cmd := &cobra.Command{
		Use:   "check-database",
		Short: "Look whether the database is set up to be shared with tenants, and say what to change",
		Long: `Look whether the database is set up to be shared with tenants, and say what to change.

An error gives somebody the mesh who was not granted it, and makes the exit code 1. A warning lets somebody hold it up. A note is worth
knowing. Each comes with the statement to run. Nothing is changed. It takes the URL of the owner of the mesh.`,
		Example: `  mcp-server check-database --database "$DATABASE"
  mcp-server check-database --database "$DATABASE" -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return errors.New("--output: write json, or leave it out")
			}
			found, err := sharing.Check(cmd.Context(), database)
			if err == nil {
				err = printFindings(cmd, found, output == "json")
			}
			if err == nil && slices.ContainsFunc(found, func(f sharing.Finding) bool { return f.Severity == sharing.Error }) {
				return program.Exit(1)
			}
			return err
		},
	}
	needDatabase(cmd, &database)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, for programs")
	return cmd
}

func printFindings(cmd *cobra.Command, found []sharing.Finding, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]sharing.Finding{}, found...))
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(out, "%s: %s\n  %s\n  %s\n", f.Severity, f.What, f.Why, f.Fix); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "nothing is to be changed")
		return err
	}
	return nil
}
