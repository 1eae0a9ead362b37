// Gaps of the theme, closed: a name for the search dialog, the keyboard for what scrolls sideways,
// and a name of its own for each button that copies.
addEventListener("load", () => {
  const mend = () => {
    document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
    for (const wide of document.querySelectorAll("pre > code, .md-typeset__scrollwrap"))
      wide.tabIndex = 0
    document.querySelectorAll(".md-code__nav").forEach((bar, i) =>
      bar.setAttribute("aria-label", `Code ${i + 1}`))
  }
  mend()
  new MutationObserver(mend).observe(document.body, { childList: true, subtree: true })
})
