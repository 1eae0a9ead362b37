"""A self-contained HTML page about a series of checks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from flwr_kld._extras import require
from flwr_kld.report.history import Check
from flwr_kld.report.plot import plot_history
from flwr_kld.report.sight import who_saw_what

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
  :root { color-scheme: light dark; --line: #8884; --soft: #8882; --warn: #c4501b; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto;
    padding: 0 1rem }
  h1 { font-size: 1.5rem; margin-bottom: .25rem } h2 { font-size: 1.1rem; margin-top: 2rem }
  .big { font-size: 2.2rem; font-weight: 600; margin: .5rem 0 0 }
  .muted { opacity: .75 } .warn { color: var(--warn); font-weight: 600 }
  img { width: 100%; background: #fff; border-radius: 6px }
  .wide { overflow-x: auto }
  table { border-collapse: collapse; width: 100%; font-size: .85rem;
    font-variant-numeric: tabular-nums }
  th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid var(--line);
    white-space: nowrap }
  th { font-weight: 600; background: var(--soft) }
  td.words { white-space: normal; text-align: left; min-width: 9rem }
  dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem }
  dt { font-weight: 600 } dd { margin: 0; overflow-wrap: anywhere }
</style>
<h1>{{ title }}</h1>
<div class="muted">{{ subtitle }}</div>
{% if last %}
<p class="big">
{%- if last.estimate is none %}No estimate{% else -%}
{{ "%.3f"|format(last.estimate) }} ± {{ "%.3f"|format(last.error) }} nats{% endif %}</p>
{% if last.note %}<p class="warn">{{ last.note }}</p>{% endif %}
<p>KL(reference ‖ clients) of the last check's {{ last.target or "cohort" }}
{%- if last.theta is not none %}, skewed by θ = {{ "%.3g"|format(last.theta) }}{% endif %}.
An estimate is not an alarm: its error bar leaves out the estimator's own bias.</p>
{% if not last.private %}<p class="warn">Seeded noise: a reproducible simulation, private for
nobody.</p>{% endif %}
{% else %}
<p class="big">No check succeeded</p>
{% endif %}
<img alt="estimates over checks" src="data:image/png;base64,{{ plot }}">
<h2>Checks</h2>
<p class="muted">Divergences, standard deviations and ε in nats; sampling, Monte Carlo and
privacy are the parts of the s.d.</p>
<div class="wide"><table>
<tr><th>check<th>estimate<th>± s.d.<th>sampling<th>Monte Carlo<th>privacy
{%- if truths %}<th>truth{% endif %}<th>ε<th>clients<th>records<th>left out<th>seconds</tr>
{% for c in checks %}<tr><td>{{ c.number }}
{%- if c.report %}{% set r = c.report -%}
{%- for part in (r.estimate, r.error, r.sampling, r.monte_carlo, r.privacy) -%}
<td>{{ "–" if part is none else "%.3f"|format(part) }}
{%- endfor %}
{%- if truths %}<td>{{ "–" if c.truth is none else "%.3f"|format(c.truth) }}{% endif -%}
<td>{{ "%g"|format(r.epsilon) }}<td>{{ r.survivors }} of {{ r.asked }}
<td>{{ "{:,.0f}".format(r.records) }}<td>{{ r.dropouts.values()|sum }}
<td>{{ "%.2f"|format(r.seconds) }}
{%- else %}<td colspan="11">failed: no number was released{% endif %}</tr>
{% endfor %}</table></div>
{% if reasons %}<h2>Clients left out</h2>
<ul>{% for reason, n in reasons %}<li>{{ n }} × {{ reason }}{% endfor %}</ul>{% endif %}
{% if models %}
<h2>The trust models side by side</h2>
<div class="wide"><table>
<tr><th>trust<th>aggregation<th>estimate<th>± s.d.<th>truth<th>ε asked<th>ε delivered
<th>bytes per client<th>seconds<th>who saw what</tr>
{% for c in models %}{% set r = c.report %}<tr><td>{{ r.trust }}<td>{{ r.aggregation }}
<td>{{ "–" if r.estimate is none else "%.3f"|format(r.estimate) }}<td>{{ "%.3f"|format(r.error) }}
<td>{{ "–" if c.truth is none else "%.3f"|format(c.truth) }}
<td>{{ "%g"|format(r.epsilon) }}<td>{{ "%.3g"|format(r.delivered) }}
<td>{{ "{:,.0f}".format(r.bytes_down + r.bytes_up) }}<td>{{ "%.1f"|format(r.seconds) }}
<td class="words">{{ seen(r) }}</tr>
{% endfor %}</table></div>
{% endif %}
{% if last %}
<h2>What is protected, from whom</h2>
<p>Each check hides one {{ last.unit }} ({{ last.adjacency }})
at ε = {{ "%.3g"|format(last.delivered) }} nats, δ = {{ "%g"|format(last.delta) }}
{%- if last.delivered != last.epsilon %} (ε = {{ "%g"|format(last.epsilon) }} was asked){% endif %}
({{ last.mechanism }}, standard deviation {{ "%.3g"|format(last.noise) }}).
{% if last.adjacency == "replace-one" %}The number of records is public.{% endif %}
{{ protected }}
Whoever sees only this page, the reports or the metrics learns what the guarantee allows, and no
more.</p>
<h2>What was compared</h2>
<dl><dt>domain<dd>{{ last.domain }}<dt>reference<dd>{{ last.reference }}
<dt>cells<dd>{{ last.cells }}<dt>estimator<dd>{{ last.estimator }}
<dt>trust model<dd>{{ last.trust }}
<dt>bytes per client<dd>{{ "{:,.0f}".format(last.bytes_down) }} down,
{{ "{:,.0f}".format(last.bytes_up) }} up<dt>last check<dd>{{ last.started }}</dl>
{% endif %}
</html>
"""


def save_html(
    checks: Sequence[Check],
    path: Path,
    *,
    title: str,
    subtitle: str = "",
    drift_from: int | None = None,
    models: Sequence[Check] = (),
) -> None:
    """Write the page.

    Parameters
    ----------
    checks : Sequence[Check]
        In order.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.
    models : Sequence[Check]
        One check in each trust model, to be shown side by side.

    Raises
    ------
    ImportError
        If jinja2 or matplotlib is not installed; names the extra.
    """
    jinja2 = require("jinja2", extra="plots")
    with TemporaryDirectory() as folder:
        picture = Path(folder) / "history.png"
        plot_history(checks, picture, drift_from=drift_from)
        plot = base64.b64encode(picture.read_bytes()).decode()
    reports = [c.report for c in checks if c.report]
    last = reports[-1] if reports else None
    left_out = [item for report in reports for item in report.dropouts.items()]
    page = jinja2.Environment(autoescape=True).from_string(_PAGE)
    path.write_text(
        page.render(
            title=title,
            subtitle=subtitle,
            checks=checks,
            last=last,
            truths=any(c.truth is not None for c in checks),
            reasons=[
                (reason, sum(n for r, n in left_out if r == reason)) for reason in dict(left_out)
            ],
            protected=who_saw_what(last) if last else "",
            plot=plot,
            models=[c for c in models if c.report],
            seen=who_saw_what,
        )
    )
