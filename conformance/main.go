// Conformance puts discovery to an exam: cases of configuration, proxy, and what each call of that
// proxy must lead to. The corpus and its runner are beside the project; this program builds the
// runner, starts discovery with a directory of files, and gives it each case.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// allTiers are those that concern what discovery acts on: the Gateway API's are not among them.
const allTiers = "behaviour,behaviour-translated,behaviour-featureflag,golden,golden-translated,golden-featureflag,oracle"

type options struct {
	corpus string
	tiers  string
	run    string
	delta  bool
	diff   bool
	report string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use: "conformance", Short: "Put discovery to the exam of a corpus of cases", SilenceUsage: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return examine(cmd.Context(), o) },
	}
	f := root.Flags()
	f.StringVar(&o.corpus, "corpus", "", "folder with cases/ and simulate/")
	f.StringVar(&o.tiers, "tier", allTiers, "the tiers to run")
	f.StringVar(&o.run, "run", "", "only cases whose id, test or tier matches this regular expression")
	f.BoolVar(&o.delta, "delta", false, "speak incremental xDS")
	f.BoolVar(&o.diff, "diff", false, "compare with what istiod was recorded to send, explain each difference, and fail for one that nothing explains")
	f.StringVar(&o.report, "report", "", "write what came of each case to this file, as JSON")
	_ = root.MarkFlagRequired("corpus") // the flag exists
	root.AddCommand(applyCommand())
	return root
}

// examine runs the cases and sums them up.
func examine(ctx context.Context, o options) error {
	work, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	runner := filepath.Join(work, "simulate")
	if err := build(ctx, filepath.Join(o.corpus, "simulate"), runner); err != nil {
		return err
	}
	d, err := start(ctx, work)
	if err != nil {
		return err
	}
	defer d.stop()
	if o.report == "" {
		o.report = filepath.Join(work, "report.json")
	}
	served := filepath.Join(work, "served")
	if err := os.Mkdir(served, 0o755); err != nil {
		return err
	}
	args := []string{
		"-cases", filepath.Join(o.corpus, "cases"), "-addr", d.xds, "-apply", d.apply, "-work", filepath.Join(work, "case"),
		"-tier", o.tiers, "-run", o.run, "-report", o.report, "-settle", "60ms", "-record", served,
	}
	if o.delta {
		args = append(args, "-delta")
	}
	cmd := exec.CommandContext(ctx, runner, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	failed := cmd.Run()
	outcomes, err := readOutcomes(o.report)
	if err != nil {
		return errors.Join(err, failed)
	}
	return o.judge(outcomes, served)
}

// build compiles the runner where nothing of it stays.
func build(ctx context.Context, source, to string) error {
	absolute, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, ".")
	cmd.Dir, cmd.Env = absolute, append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the runner in %s: %w", absolute, err)
	}
	return nil
}
