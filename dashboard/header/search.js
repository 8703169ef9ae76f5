// Puts the cursor into the field of the search: Streamlit leaves it on the dialog itself.
{
  let tries = 0;
  const timer = setInterval(() => {
    const field = document.querySelector('[data-testid="stDialog"] input');
    field?.focus();
    if (document.activeElement === field || ++tries > 40) clearInterval(timer);
  }, 50);
}
