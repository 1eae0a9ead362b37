"use strict";
// Asks now and then whether the ledger has changed, and says so when it no longer answers.
const nav = document.querySelector("nav[data-stamp]"), status_ = nav.querySelector("[role=status]");
const stamp = nav.dataset.stamp, made = status_.textContent;
async function look() {
  if (document.hidden || !stamp) return;
  let now;
  try {
    const answer = await fetch("stamp", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    now = await answer.text();
  } catch {
    status_.textContent = `${made}; no answer since`;
    return;
  }
  if (now === stamp) status_.textContent = made;
  else if (scrollY < 100) location.reload();
  else status_.textContent = `${made}; there is news: scroll up and reload`;
}
setInterval(look, 15000);
document.addEventListener("visibilitychange", look);
