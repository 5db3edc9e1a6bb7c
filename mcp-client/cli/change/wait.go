package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// WaitHelp tells of --wait.
const WaitHelp = `With --wait it ends once all proxies run the change that are connected and that one may see: then the next request finds it in force.
--wait=90% is content with a share of them, and --wait=3 with so many; --wait=false waits for none, as without it. The words of that go to standard error, so that the output is the
same. Whatever comes of the wait, the change is committed and stays.`

const (
	waitFlag    = "wait"
	timeoutFlag = "wait-timeout"
	usualWait   = 30 * time.Second
	longestWait = time.Hour
	outOfBounds = "write a time of an hour at most"
)

// waiting is what --wait says.
type waiting struct {
	enough  enough
	timeout time.Duration
}

// DeclareWait declares --wait and --wait-timeout. How long to wait for an answer of the server is
// another thing, and has its flag already.
func (o *Options) DeclareWait(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&o.wait.enough, waitFlag, "wait until connected proxies run the change: all, a share such as 90%, or so many")
	f.Lookup(waitFlag).NoOptDefVal = allProxies
	f.DurationVar(&o.wait.timeout, timeoutFlag, usualWait, "how long to --wait, an hour at most")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.checkWait(f.Changed(timeoutFlag) && !f.Changed(waitFlag)); err != nil {
			return failure.Usage(cmd, err)
		}
		return nil
	}
}

// checkWait refuses what cannot be meant.
func (o *Options) checkWait(timed bool) error {
	switch {
	case o.wait.enough.text == "" && timed:
		return errors.New("--" + timeoutFlag + " says how long to --" + waitFlag + ", which is missing")
	case o.wait.enough.text != "" && o.DryRun:
		return errors.New("--" + waitFlag + " waits for a change, and --dry-run makes none")
	case !o.wait.inBounds():
		return fmt.Errorf("--%s %s: "+outOfBounds, timeoutFlag, o.wait.timeout)
	}
	return nil
}

func (w *waiting) inBounds() bool { return w.timeout >= 0 && w.timeout <= longestWait }

// Conclude prints what a change did, and waits for proxies if that is wanted.
func (o *Options) Conclude(ctx context.Context, s *session.Session, answer changeAnswer) error {
	if err := PrintOutcomes(s.Printer, answer, o.DryRun); err != nil {
		return err
	}
	return o.Wait(ctx, s, answer.GetRevision())
}

// Wait waits until proxies run a revision, if that is wanted. If there was nothing to change, that
// is the newest: what was there already may still be on its way.
func (o *Options) Wait(ctx context.Context, s *session.Session, revision int64) error {
	if o.wait.enough.text == "" {
		return nil
	}
	shown := newProgress(s.Err)
	last, err := o.wait.until(ctx, &s.Server, revision, func(answer *adminv1.WaitUntilRunResponse) { shown.show(numbers(answer)) })
	shown.clear()
	stays := "nothing was changed"
	if revision > 0 {
		stays = fmt.Sprintf("revision %d is committed and stays", revision)
	}
	if ctx.Err() != nil {
		fmt.Fprintf(s.Err, "interrupted: %s\n", stays)
	}
	if err != nil {
		return &failure.Committed{Change: stays, Err: err}
	}
	fmt.Fprintln(s.Err, numbers(last))
	return nil
}

// errNobody refuses --wait=false of a command that only waits.
var errNobody = errors.New("none is too few to wait for")

// WaitFor waits until proxies run the newest revision. enough and timeout are as of --wait and
// --wait-timeout, and may be "".
func WaitFor(ctx context.Context, server *connect.Server, enough, timeout string) (*adminv1.WaitUntilRunResponse, error) {
	w := waiting{timeout: usualWait}
	err := w.enough.Set(cmp.Or(enough, allProxies))
	if err == nil && w.enough.text == "" {
		err = errNobody
	}
	if err != nil {
		return nil, fmt.Errorf("enough: %w", err)
	}
	if timeout != "" {
		if w.timeout, err = time.ParseDuration(timeout); err != nil {
			return nil, fmt.Errorf("timeout: %w", err)
		}
	}
	if !w.inBounds() {
		return nil, fmt.Errorf("timeout %s: "+outOfBounds, w.timeout)
	}
	return w.until(ctx, server, 0, func(*adminv1.WaitUntilRunResponse) {})
}

// until waits until enough proxies run a revision, or the newest if it is 0, and tells how far they
// are meanwhile. It returns the last that it was told, with the reason if that is not enough.
func (w *waiting) until(ctx context.Context, server *connect.Server, revision int64, tell func(*adminv1.WaitUntilRunResponse)) (last *adminv1.WaitUntilRunResponse, err error) {
	req := &adminv1.WaitUntilRunRequest{Revision: revision, Timeout: durationpb.New(w.timeout)}
	w.enough.ask(req)
	err = connect.Each(ctx, server, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.WaitUntilRun, req, func(answer *adminv1.WaitUntilRunResponse) error {
		last = answer
		tell(answer)
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return last, err
	case err != nil:
		return last, untold(err)
	}
	return last, w.verdict(last)
}

// untold says that it is not known who runs a change.
func untold(err error) error {
	if old, is := errors.AsType[*failure.NotOffered](err); is {
		return fmt.Errorf("the server is of a release that cannot tell which proxies run it (%w)", old)
	}
	return fmt.Errorf("whether proxies run it is not known: %w", err)
}

// numbers says how far proxies are.
func numbers(r *adminv1.WaitUntilRunResponse) string {
	if r.GetConnected() == 0 {
		return fmt.Sprintf("no proxy is connected that could run revision %d", r.GetRevision())
	}
	return fmt.Sprintf("%d of %d proxies run revision %d", r.GetRunning(), r.GetConnected(), r.GetRevision())
}

// verdict returns why the wait did not end well, nil if it did.
func (w *waiting) verdict(last *adminv1.WaitUntilRunResponse) error {
	switch last.GetOutcome() {
	case adminv1.WaitUntilRunResponse_OUTCOME_DONE:
		return nil
	case adminv1.WaitUntilRunResponse_OUTCOME_REFUSED:
		return &failure.NotRun{Refused: true, Text: fmt.Sprintf("%s, and %s some of it%s", numbers(last), words.Counted(int(last.GetRefusing()), "refuses", "refuse"), behind(last))}
	case adminv1.WaitUntilRunResponse_OUTCOME_LATE:
		return &failure.NotRun{Text: fmt.Sprintf("%s after %s%s%s", numbers(last), w.timeout, w.enough.asked(), behind(last))}
	case adminv1.WaitUntilRunResponse_OUTCOME_UNSPECIFIED:
	}
	return untold(errors.New("the server ended the wait without saying"))
}

// behind names who does not run the revision, and why.
func behind(last *adminv1.WaitUntilRunResponse) string {
	var who []string
	for _, b := range last.GetBehind() {
		who = append(who, fmt.Sprintf("%s/%s runs %s and %s", b.GetNamespace(), b.GetProxy(), revisionOrNothing(b.GetRuns()), why(b)))
	}
	if more := int(last.GetConnected()-last.GetRunning()) - len(who); more > 0 && len(who) > 0 {
		who = append(who, fmt.Sprintf("and %d more", more))
	}
	if len(who) == 0 {
		return ""
	}
	return ": " + strings.Join(who, "; ") + ". mcp-client proxy-status PROXY tells more"
}

// why says why a proxy does not run the revision, as mesh.wait does.
func why(b *adminv1.WaitUntilRunResponse_Behind) string {
	if b.GetReason() != "" {
		return terminal.Line(strings.Join(strings.Fields(b.GetReason()), " ")) // Envoy's words have several lines
	}
	switch b.GetState() {
	case "refused":
		return "refuses " + words.Counted(int(b.GetRefused()), "resource", "resources")
	case "silent":
		return "does not answer"
	case "sending":
		return "is being sent " + revisionOrNothing(b.GetSent())
	}
	return "is in step with its discovery, which is behind"
}

func revisionOrNothing(revision int64) string {
	if revision == 0 {
		return "nothing yet"
	}
	return fmt.Sprint(revision)
}
