// The page behind a link that decides: its buttons send what they say, once.
const said = document.getElementById('said');
const buttons = document.querySelectorAll('button[data-decision]');

for (const button of buttons) {
  button.addEventListener('click', async () => {
    for (const one of buttons) one.disabled = true;
    try {
      const answer = await fetch(location.pathname, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ decision: button.dataset.decision }),
      });
      const text = await answer.json();
      said.textContent = answer.ok ? `Recorded: ${button.dataset.decision}.` : `${text.title}. ${text.detail ?? ''}`;
    } catch {
      said.textContent = 'The agent did not answer. Load the page again.';
    }
  });
}
